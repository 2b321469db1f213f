"""The job `lineage`: which topics messages came from, by their headers."""

from quiver_spark.jobs.lineage.job import main, run

__all__ = ["main", "run"]
