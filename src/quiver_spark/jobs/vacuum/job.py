"""`vacuum`: removes files that the table of a lake does not name any more, or never did. It needs no Spark."""

import sys
from pathlib import Path

from quiver.model.errors import InvalidRequest
from quiver.model.times import parse_duration_ms
from quiver_spark.jobs.progress import Summary
from quiver_spark.lake.opening import open_lake
from quiver_spark.runtime.stopwatch import Stopwatch

DEFAULT_AGE = "7d"
_HOUR_MS = 3_600_000


def run(lake: str | Path, *, older_than: str = DEFAULT_AGE, dry_run: bool = False) -> Summary:
    """Removes files that were replaced, and files of runs that failed, if they are older than that. Queries of older
    versions of the table end with them. No archive or optimize may take longer than that age."""
    age_hours = age_in_hours(older_than)
    watch = Stopwatch()
    removed = open_lake(lake).vacuum(age_hours, dry_run=dry_run)
    return Summary(job="vacuum", files=len(removed), seconds=watch.seconds(), details={"dry_run": dry_run})


def age_in_hours(text: str) -> int:
    """Whole hours. Raises InvalidRequest for an age that is not a duration, or below an hour and not 0."""
    age_ms = parse_duration_ms(text, "the age")
    if 0 < age_ms < _HOUR_MS:
        raise InvalidRequest(problem=f"the age {text!r} is below an hour: longer runs would lose their files")
    return age_ms // _HOUR_MS


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline vacuum`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("vacuum", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
