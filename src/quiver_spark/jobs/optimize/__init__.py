"""The job `optimize`: files of a lake joined, sorted, and with columns from JSON values."""

from quiver_spark.jobs.optimize.job import main, run

__all__ = ["main", "run"]
