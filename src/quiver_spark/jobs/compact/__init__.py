"""The job `compact`: the last message of each key into another topic or a lake."""

from quiver_spark.jobs.compact.job import main, run

__all__ = ["main", "run"]
