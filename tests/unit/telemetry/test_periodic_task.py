"""Work that is done again and again."""

import asyncio

import pytest

from quiver.model.errors import ShuttingDown
from quiver.telemetry import supervised_task
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_task, "FIRST_PAUSE_SECONDS", 0.001)


class Rounds:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.count = 0
        self.running = self.most_running = 0
        self.ended = asyncio.Event()

    async def work(self, failures: Failures) -> None:
        self.count += 1
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        await asyncio.sleep(0)
        self.running -= 1
        if not self.errors:
            self.ended.set()
            return
        with failures.of("this part"):
            raise self.errors.pop(0)


async def test_rounds_follow_each_other_until_it_stops() -> None:
    rounds = Rounds(ShuttingDown(), OSError())
    task = PeriodicTask("counting", rounds.work, every_seconds=0.001)
    task.start()
    await asyncio.wait_for(rounds.ended.wait(), 5)
    assert rounds.count >= 3
    assert rounds.most_running == 1
    assert task.problem is None, "these failures were expected"
    await task.stop()
    count = rounds.count
    await asyncio.sleep(0)
    assert rounds.count == count


async def test_what_nobody_expected_is_shown_and_the_rounds_go_on() -> None:
    rounds = Rounds(ZeroDivisionError("by nothing"))
    task = PeriodicTask("counting", rounds.work, every_seconds=0.001)
    task.start()
    await asyncio.wait_for(rounds.ended.wait(), 5)
    assert task.name == "counting"
    assert task.problem is not None
    assert "ZeroDivisionError" in task.problem
    await task.stop()
