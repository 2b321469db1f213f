"""Roles start together, and a role that fails ends the run with its reason."""

import pytest
from benchmarks.roles import Role, RoleFailed, Watch, run_roles, span


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
