"""The job `ingest`: files or the rows of a database table into a topic, each once."""

from quiver_spark.jobs.ingest.job import main, run
from quiver_spark.jobs.ingest.table import run_table

__all__ = ["main", "run", "run_table"]
