"""Whose files are on this machine, asked again when the answer may have changed."""

from collections.abc import Callable

from blackbox.processes.broker_process import BrokerProcess
from quiver_spark.direct.broker_files import files_at
from quiver_spark.direct.known_files import KnownFiles
from quiver_spark.direct.own_addresses import is_own_address


class TestClock:
    __test__ = False

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1000)


def test_a_broker_that_stops_and_starts(start_broker: Callable[..., BrokerProcess]) -> None:
    broker, clock = start_broker(), TestClock()
    known = KnownFiles(lambda: files_at(broker.http), clock)
    first = known.now()
    assert first is not None
    assert first.path == str(broker.data_dir)
    broker.restart(kill=True)
    second = known.now()
    assert second is not None
    assert second != first, "another start of the broker"
    broker.kill()
    assert known.now() is None
    broker.start()
    assert known.now() is None, "asking for each slice would take too long where there is nobody"
    clock.seconds += 11
    third = known.now()
    assert third is not None
    assert third not in (first, second)


def test_own_addresses() -> None:
    assert is_own_address("127.0.0.1:7481")
    assert not is_own_address("192.0.2.1:7481"), "of documents: no machine has it"
    assert not is_own_address("no-such-host.invalid:7481")
