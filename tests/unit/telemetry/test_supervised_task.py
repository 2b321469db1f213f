"""Tasks that go on whatever happens in them."""

import asyncio
import logging

import pytest

from quiver.telemetry import supervised_task
from quiver.telemetry.failures import Failures
from quiver.telemetry.supervised_task import SupervisedTask


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_task, "FIRST_PAUSE_SECONDS", 0.001)


class Work:
    """Fails as often as it is told to, in one way or another."""

    def __init__(self, *errors: BaseException | None) -> None:
        self.errors = list(errors)
        self.begun = 0
        self.runs_well = asyncio.Event()

    async def run(self) -> None:
        self.begun += 1
        if self.errors:
            error = self.errors.pop(0)
            if error is None:
                return
            raise error
        self.runs_well.set()
        await asyncio.Event().wait()


async def test_it_begins_again_and_says_why_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(ZeroDivisionError("by nothing"), None, KeyError("k"))
    task = SupervisedTask("washing", work.run)
    task.start()
    with caplog.at_level(logging.ERROR):
        await asyncio.wait_for(work.runs_well.wait(), 5)
    assert work.begun == 4
    assert task.problem is not None
    assert "KeyError" in task.problem
    assert [record.exc_info is not None for record in caplog.records] == [True] * 3
    assert "washing failed unexpectedly" in caplog.text
    await task.stop()


async def test_a_future_that_is_cancelled_elsewhere_does_not_end_it() -> None:
    work = Work(asyncio.CancelledError())
    task = SupervisedTask("washing", work.run)
    task.start()
    await asyncio.wait_for(work.runs_well.wait(), 5)
    await task.stop()
    assert work.begun == 2


async def test_what_has_run_for_a_while_is_well_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_task, "WELL_AFTER_SECONDS", 0.01)
    work = Work(ZeroDivisionError())
    task = SupervisedTask("washing", work.run)
    task.start()
    await asyncio.wait_for(work.runs_well.wait(), 5)
    async with asyncio.timeout(5):
        while task.problem is not None:
            await asyncio.sleep(0)
    await task.stop()


async def test_stopping_ends_it_also_while_it_waits_to_begin_again() -> None:
    supervised = SupervisedTask("washing", Work(*[ZeroDivisionError()] * 1000).run)
    supervised.start()
    await asyncio.sleep(0)
    await supervised.stop()
    await supervised.stop()


def test_one_failure_keeps_nobody_from_their_turn(caplog: pytest.LogCaptureFixture) -> None:
    done, failures = [], Failures()
    for number in range(5):
        with failures.of(f"number {number}"):
            if number == 1:
                raise OSError("full")
            if number in (2, 3):
                raise ZeroDivisionError(number)
            done.append(number)
    assert done == [0, 4]
    assert "number 1 failed, will try again: full" in caplog.text
    with pytest.raises(ZeroDivisionError, match="2"):
        failures.check()
