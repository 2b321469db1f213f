"""`ingest`: files into a topic, each exactly once.

The rows of some files go out in one transaction, together with a record for each file in a topic beside the target.
So a run that was killed continues with the files that have no record, and no file is written twice.
"""

import sys
from collections.abc import Sequence
from typing import Any

from quiver.model.errors import InvalidRequest
from quiver.model.names import check_name
from quiver_spark.jobs.arguments import SessionOrFactory, commit_options, started
from quiver_spark.jobs.ingest.done import DoneTopic, commit_key, with_records
from quiver_spark.jobs.ingest.files import CHANGED, SourceFile, batches, found_files, remaining
from quiver_spark.jobs.ingest.transforms import file_rows
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.jobs.sql.job import write_once
from quiver_spark.jobs.target_topic import make_topic
from quiver_spark.jobs.terminal import bar_lines
from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch

_MOST_BARS = 20
_PARTITIONS = 3


def run(
    spark: SessionOrFactory,
    places: Sequence[str],
    to: str,
    *,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    format: str | None = None,
    key: str | None = None,
    schema: str | None = None,
    changed: str = "error",
    partitions: int = _PARTITIONS,
    transaction_timeout: str | None = None,
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Writes the rows of all files in `places` that were not ingested yet to the topic `to`, made if it is absent.

    `key` names the field or column of the key, `schema` the columns of CSV files (DDL; all strings if absent).
    `changed` says what to do with a file that was read before and is another one now: error, skip or again.
    `dry_run` says which files would be read.
    """
    if changed not in CHANGED:
        raise InvalidRequest(problem=f"--changed is {', '.join(CHANGED)}, not {changed!r}")
    target, writing = check_name(to), commit_options(transaction_timeout)
    files = found_files(places, format)
    done = DoneTopic(target, bootstrap)
    left = remaining(files, {path: str(record["version"]) for path, record in done.read().items()}, changed)
    details: dict[str, Any] = {"to": target, "files_found": len(files), "files_done_before": len(files) - len(left)}
    size = sum(file.size_bytes for file in left)
    if dry_run:
        details |= {"dry_run": True, "would_read": [file.path for file in left]}
        return Summary(job="ingest", files=len(left), bytes=size, details=details)
    if not left:
        make_topic(target, bootstrap, partitions)
        done.make()
        return Summary(job="ingest", details={**details, "commits": 0})
    spark, watch = started(spark), Stopwatch()
    make_topic(target, bootstrap, partitions)
    done.make()
    rows, commits = 0, list[tuple[str, int, str]]()
    with spark_failures("the ingest"), progress_bar("ingest", size, "bytes", wanted=show_progress) as bar:
        for batch in batches(left):
            records = {file.path: _record(file) for file in batch}
            frame = with_records(file_rows(spark, batch, key, schema), target, done, records)
            sink = {"bootstrap": bootstrap, "commitKey": commit_key(target, records), **writing}
            with bar.watch(spark, sum(file.size_bytes for file in batch)):
                count = write_once(frame, sink) - len(records)
            rows += count
            what = f"{_counted(count, 'row')} of {_counted(len(batch), 'file')}"
            commits.append((f"commit {len(commits) + 1}", count, what))
    details["commits"] = len(commits)
    lines = bar_lines("rows by commit", commits[-_MOST_BARS:])
    return Summary(
        job="ingest", rows=rows, files=len(left), bytes=size, seconds=watch.seconds(), details=details, lines=lines
    )


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


def _record(file: SourceFile) -> dict[str, Any]:
    return {"version": file.version, "format": file.format, "size_bytes": file.size_bytes}


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline ingest`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("ingest", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
