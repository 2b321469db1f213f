"""The job `audit`: stored frames checked, and an archive compared with them."""

from quiver_spark.jobs.audit.job import main, run

__all__ = ["main", "run"]
