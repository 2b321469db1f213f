"""The job `profile`: what the messages of a topic look like."""

from quiver_spark.jobs.profile.job import main, run

__all__ = ["main", "run"]
