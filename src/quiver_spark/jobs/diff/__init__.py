"""The job `diff`: what two topics, or a topic and a lake, do not have in common."""

from quiver_spark.jobs.diff.job import main, run

__all__ = ["main", "run"]
