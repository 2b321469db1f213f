"""Records of runs: a run with the same id resumes, and one that was asked for something else is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import CorruptData, InvalidRequest
from quiver_spark.jobs.ranges import Range, Times
from quiver_spark.jobs.run_record import RunRecord, RunRecords, default_directory

PLANNED = RunRecord({"topic": "a", "where": "x > 1"}, [Range("a", 0, 5, 9, 3)], Times(1, None), 100)


def records(place: Path) -> RunRecords:
    return RunRecords(place / "state" / "runs")


def test_a_run_with_the_same_id_gets_the_first_plan(tmp_path: Path) -> None:
    assert records(tmp_path).begin("nightly", PLANNED) == PLANNED
    planned_later = RunRecord(dict(PLANNED.asked), [Range("a", 0, 5, 700, 3)], Times(2, 3), 50)
    assert records(tmp_path).begin("nightly", planned_later) == PLANNED
    assert records(tmp_path).begin("weekly", planned_later) == planned_later, "another id is another run"


def test_what_is_done_is_kept(tmp_path: Path) -> None:
    found = records(tmp_path).begin("nightly", RunRecord(PLANNED.asked, PLANNED.ranges, PLANNED.times, 100))
    found.done = 7
    records(tmp_path).keep("nightly", found)
    assert records(tmp_path).begin("nightly", PLANNED).done == 7


@pytest.mark.parametrize("asked", [{"topic": "b", "where": "x > 1"}, {"topic": "a"}, {**PLANNED.asked, "rate": "1"}])
def test_other_settings_are_refused_and_named(tmp_path: Path, asked: dict[str, str]) -> None:
    records(tmp_path).begin("nightly", PLANNED)
    [changed] = {name for name in asked | PLANNED.asked if asked.get(name) != PLANNED.asked.get(name)}
    with pytest.raises(InvalidRequest, match=rf"'nightly' was begun with other settings \({changed}\)"):
        records(tmp_path).begin("nightly", RunRecord(asked, PLANNED.ranges, PLANNED.times, 100))
    assert records(tmp_path).begin("nightly", PLANNED) == PLANNED, "the record stays as it was"


def test_a_damaged_record_is_not_taken_for_a_new_run(tmp_path: Path) -> None:
    records(tmp_path).begin("nightly", PLANNED)
    [path] = (tmp_path / "state" / "runs").iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptData, match="is damaged"):
        records(tmp_path).begin("nightly", PLANNED)


@given(st.text(max_size=120) | st.sampled_from(["../x", "a/b", "", "x" * 101, "a\n", "ü"]))
def test_an_id_names_a_file_in_the_directory_or_is_refused(tmp_path_factory: pytest.TempPathFactory, id: str) -> None:
    place = tmp_path_factory.mktemp("runs")
    try:
        RunRecords(place).begin(id, PLANNED)
    except InvalidRequest:
        assert list(place.iterdir()) == []
    else:
        assert [path.name for path in place.iterdir()] == [f"{id}.json"]


def test_where_runs_without_a_lake_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_directory() == Path("/state/quiver/runs")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert default_directory() == Path("/home/ada/.local/state/quiver/runs")
