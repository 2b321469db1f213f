"""A long outage is told from its beginning to its end, in few lines."""

import pytest

from quiver.client.connection.retry_log import RetryLog
from quiver.model.errors import ConnectionLost, Overloaded

DAY = 86_400


class HandClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def test_the_first_failure_is_told_and_then_ever_fewer(clock, caplog):
    log = RetryLog(clock)
    lost = ConnectionLost(address="a:1", problem="Connection refused")
    told_at = []
    for attempt in range(1, DAY + 1):
        log.retrying("anything", lost, attempt, 1.0)
        if len(caplog.records) > len(told_at):
            told_at.append(attempt)
        clock.seconds += 1
    assert told_at[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert len(told_at) < DAY / 60 + 10, "a line a minute"
    assert caplog.messages[0] == "no connection to a:1: Connection refused (attempt 1, next in 1.00 s)"
    assert "attempt 8 for 7 s" in caplog.messages[3]
    assert log.connection_error is lost


def test_the_end_is_told_once_and_the_next_outage_is_new(clock, caplog):
    caplog.set_level("INFO", "quiver")
    log = RetryLog(clock)
    log.connected("a:1")
    for _ in range(2):
        for attempt in range(1, 11):
            log.retrying("anything", ConnectionLost(address="a:1", problem="p"), attempt, 0.1)
            clock.seconds += 0.1
        log.connected("a:1")
        assert log.connection_error is None
    levels = [(record.levelname, record.getMessage().split(" (")[0]) for record in caplog.records]
    outage = [("WARNING", "no connection to a:1: p"), ("WARNING", "connected to a:1 again, after 1.0 s")]
    assert levels == [("INFO", "connected to a:1"), *outage, *outage]


def test_each_kind_of_trouble_has_its_own_lines(clock, caplog):
    log = RetryLog(clock)
    for attempt in range(1, 6):
        log.retrying("sending to orders", Overloaded(problem="p"), attempt, 0.1)
        log.retrying("sending to orders", ConnectionLost(address="a:1", problem="p"), attempt, 0.1)
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith("sending to orders: the broker has too much in flight")
