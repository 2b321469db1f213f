"""The job `latency`: how long messages wait for delivery and ack."""

from quiver_spark.jobs.latency.job import main, run

__all__ = ["main", "run"]
