"""`quiver pipeline archive|replay|compact`: jobs on Spark.

A job is a line here and a module with a `typer.Typer` named `app`, which is imported when the job is used.
"""

from typing import ClassVar

import typer

from quiver.cli.lazy_group import LazyGroup, Subcommand


class _Jobs(LazyGroup):
    subcommands: ClassVar[dict[str, Subcommand]] = {
        "archive": Subcommand("quiver_spark.jobs.archive.command", "Archive topics into a lake of Parquet files."),
        "replay": Subcommand("quiver_spark.jobs.replay.command", "Write a lake or a topic into a topic again."),
        "compact": Subcommand("quiver_spark.jobs.compact.command", "Write the last message of each key elsewhere."),
        "optimize": Subcommand("quiver_spark.jobs.optimize.command", "Join, sort or type the files of a lake."),
        "vacuum": Subcommand("quiver_spark.jobs.vacuum.command", "Remove files of a lake that do not count."),
        "audit": Subcommand("quiver_spark.jobs.audit.command", "Check stored frames, and the archive against them."),
        "latency": Subcommand(
            "quiver_spark.jobs.latency.command", "Report how long messages wait for delivery and ack."
        ),
        "dead-letters": Subcommand("quiver_spark.jobs.dead_letters.command", "Report on dead letters, redrive some."),
        "sql": Subcommand(
            "quiver_spark.jobs.sql.command", "Run a SQL query over topics into a topic, or as a stream."
        ),
        "profile": Subcommand("quiver_spark.jobs.profile.command", "Show the columns, types and sizes of a topic."),
        "diff": Subcommand("quiver_spark.jobs.diff.command", "Compare two topics, or a topic with a lake."),
        "lineage": Subcommand("quiver_spark.jobs.lineage.command", "Show which topics messages came from."),
        "ingest": Subcommand(
            "quiver_spark.jobs.ingest.command", "Write files or a table into a topic, each row once."
        ),
        "init": Subcommand("quiver_spark.declarative.init_command", "Write the project of a declarative pipeline."),
        "run": Subcommand("quiver_spark.declarative.run_command", "Run a declarative pipeline."),
        "package": Subcommand("quiver_spark.jobs.package_command", "Write the zip that a Spark cluster needs."),
    }


app = typer.Typer(
    cls=_Jobs,
    help="Run jobs on Spark.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _pipeline() -> None:
    """Run jobs on Spark: on all cores of this machine, or on a cluster (--master)."""
