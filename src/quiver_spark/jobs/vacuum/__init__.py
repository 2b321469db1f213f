"""The job `vacuum`: removes files of a lake that do not count."""

from quiver_spark.jobs.vacuum.job import main, run

__all__ = ["main", "run"]
