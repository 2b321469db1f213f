"""Roles start together, and a role that fails ends the run with its reason."""

import sys

import pytest
from benchmarks.roles import Role, RoleFailed, Watch, run_roles, span

import quiver
from quiver.records.build import build_frame
from quiver.records.header import stamp, unpack_header
from quiver.records.read import open_frame


def _work(number: int, watch: Watch) -> int:
    watch.start()
    watch.stop()
    return number * 2


def _fail(watch: Watch) -> None:
    raise ValueError("no such topic")


def test_results_and_times_come_back() -> None:
    outcomes = run_roles({"one": Role(_work, (1,)), "two": Role(_work, (2,))})
    assert {name: outcome.result for name, outcome in outcomes.items()} == {"one": 2, "two": 4}
    assert span(outcomes) >= max(outcome.seconds for outcome in outcomes.values()) >= 0


def test_a_failing_role_ends_the_run_for_all() -> None:
    with pytest.raises(RoleFailed, match="no such topic"):
        run_roles({"bad": Role(_fail), "good": Role(_work, (1,))})


def _first_message(watch: Watch) -> set[str]:
    """The modules that are imported while the time runs."""
    assert quiver.__version__
    watch.start()
    before = set(sys.modules)
    frame = build_frame([b"x"], keys=[b"k"], timestamp_ms=1)
    stored = stamp(frame, unpack_header(frame), base_offset=0, leader_epoch=0, append_time_ms=1)
    open_frame(bytes(stored.header_bytes) + bytes(stored.body)).values()
    return set(sys.modules) - before


def test_no_client_imports_anything_while_the_time_runs() -> None:
    assert run_roles({"first": Role(_first_message)})["first"].result == set()
