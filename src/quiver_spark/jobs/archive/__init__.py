"""The job `archive`: topics into a lake of Parquet files."""

from quiver_spark.jobs.archive.job import main, run

__all__ = ["main", "run"]
