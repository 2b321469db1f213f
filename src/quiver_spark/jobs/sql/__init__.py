"""The job `sql`: a query over topics, into a topic."""

from quiver_spark.jobs.sql.job import main, run
from quiver_spark.jobs.sql.stream import run_stream

__all__ = ["main", "run", "run_stream"]
