"""What the commands of jobs take and print."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.command_options import Output, settings, show_summary, source_options
from quiver_spark.jobs.progress import Summary, share_done

SUMMARY = Summary(job="archive", rows=12_345, files=2, bytes=10, seconds=2.0, details={"topics": ["a", "b"]})


def test_the_summary_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    record = {
        "job": "archive",
        "rows": 12_345,
        "files": 2,
        "bytes": 10,
        "seconds": 2.0,
        "rows_per_second": 6172,
        "topics": ["a", "b"],
    }
    show_summary(SUMMARY, Output.JSON)
    assert json.loads(capsys.readouterr().out) == record
    show_summary(SUMMARY, Output.YAML)
    assert yaml.safe_load(capsys.readouterr().out) == record
    show_summary(SUMMARY, Output.TABLE)
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if "per" not in line)
    assert lines == {
        "job": "archive", "rows": "12,345", "files": "2", "bytes": "10", "seconds": "2.0", "topics": "a, b"
    }  # fmt: skip


def test_a_run_that_took_no_time_has_no_rate() -> None:
    assert Summary(job="replay", rows=5).rows_per_second == 0


def test_settings_of_spark() -> None:
    assert settings(["spark.a=1", " spark.b = x=y ", "spark.c="]) == {"spark.a": "1", "spark.b": "x=y", "spark.c": ""}
    for text in ("spark.a", "=1", " =1"):
        with pytest.raises(InvalidRequest, match="is not NAME=VALUE"):
            settings([text])


def test_a_directory_takes_precedence_over_an_address() -> None:
    given = source_options(["a", "b"], bootstrap="host:1", path="/data", start=None, timeout="1s")
    assert given == {"topics": "a,b", "path": "/data", "timeout": "1s"}
    assert source_options([], "a.*", bootstrap="host:1") == {"topicPattern": "a.*", "bootstrap": "host:1"}


class Tracker:
    """Spark's status tracker: job 1 has two stages and a forgotten one, job 2 is not known yet."""

    def __init__(self) -> None:
        self.stages = {5: (3, 4), 6: (0, 4), 7: None}

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return [1, 2] if group == "mine" else []

    def getJobInfo(self, job: int) -> Any:
        return SimpleNamespace(stageIds=[5, 6, 7]) if job == 1 else None

    def getStageInfo(self, stage: int) -> Any:
        found = self.stages[stage]
        return None if found is None else SimpleNamespace(numCompletedTasks=found[0], numTasks=found[1])


def test_the_share_of_a_job_group_that_is_done() -> None:
    context = SimpleNamespace(statusTracker=Tracker)
    assert share_done(context, "mine") == 3 / 8
    assert share_done(context, "other") == 0.0
