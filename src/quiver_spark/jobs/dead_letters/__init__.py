"""The job `dead-letters`: reports on dead letters, and redrives of some of them."""

from quiver_spark.jobs.dead_letters.job import main, redrive, report

__all__ = ["main", "redrive", "report"]
