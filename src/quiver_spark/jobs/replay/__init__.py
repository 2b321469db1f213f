"""The job `replay`: messages of a lake or a topic into a topic again."""

from quiver_spark.jobs.replay.job import main, run

__all__ = ["main", "run"]
