"""When `quiver consume --group` ends, and what counts as read then."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from quiver.cli.formats.message_format import parse_format
from quiver.cli.group_member import GroupReading, Stop, Stopped, _is_finished, _print
from quiver.model.errors import ConnectionLost
from quiver.protocol.group_messages import GroupDescription, GroupMember


class FakeMessage:
    topic, partition, key, priority, timestamp, headers = "t", 0, None, "normal", 0, {}

    def __init__(self, offset: int) -> None:
        self.offset, self.value = offset, b"%d" % offset


class FakeStream:
    member_id = "m-1"

    def __init__(self, positions: dict[tuple[str, int], int] | None = None, count: int = 0) -> None:
        self.positions = positions or {}
        self.assignment = sorted(self.positions)
        self.paused: list[tuple[str, int]] = []
        self._messages = [FakeMessage(offset) for offset in range(count)]

    def __iter__(self) -> Iterator[FakeMessage]:
        return iter(self._messages)

    def pause(self, topic: str, partition: int) -> None:
        self.paused.append((topic, partition))


class FakeClient:
    """One group, and a topic with messages at some offsets."""

    def __init__(
        self, state: str = "stable", owned: Any = (("t", 0),), stored: Any = (), fails: bool = False
    ) -> None:
        self.groups, self._stored, self._fails = self, stored, fails
        member = GroupMember("m-1", "c", None, 0, 0, list(owned))
        self._description = GroupDescription("g", "stream", state, "cooperative", "sticky", 1, [member], [], {})

    def describe(self, group: str) -> GroupDescription:
        if self._fails:
            raise ConnectionLost(address="x", problem="gone")
        return self._description

    def read(self, topic: str, start: Any, end: Any, **options: Any) -> Any:
        found = [offset for offset in self._stored if start[0] <= offset < end[0]]

        class Reader(list[int]):
            def __enter__(self) -> "Reader":
                return self

            def __exit__(self, *error: object) -> None:
                return None

        return Reader(found)


def reading(*, limit: int | None = None, follow: bool = False) -> GroupReading:
    return GroupReading("t", "g", None, limit, follow, parse_format("value"), "read_committed")


def finished(client: FakeClient, stream: FakeStream, end: int = 10) -> bool:
    return _is_finished(client, stream, reading(), {0: end})  # type: ignore[arg-type]


def test_a_member_is_finished_when_its_settled_share_is_read() -> None:
    assert finished(FakeClient(), FakeStream({("t", 0): 10}))
    assert finished(FakeClient(owned=()), FakeStream())
    assert not finished(FakeClient(stored=[9]), FakeStream({("t", 0): 9}))
    assert not finished(FakeClient(state="rebalancing"), FakeStream({("t", 0): 10}))
    assert not finished(FakeClient(owned=[("t", 0), ("t", 1)]), FakeStream({("t", 0): 10}))
    assert not finished(FakeClient(fails=True), FakeStream({("t", 0): 10}))


def test_offsets_that_no_message_has_are_not_waited_for() -> None:
    assert finished(FakeClient(stored=[3, 12]), FakeStream({("t", 0): 4}))


def test_a_signal_raises_only_while_the_reader_waits() -> None:
    stop = Stop()
    stop.on_signal(signal.SIGINT, None)
    assert (stop.is_wanted, stop.by_signal) == (True, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        stop.on_signal(signal.SIGINT, None)
    waiting = Stop()
    waiting.is_waiting = True
    with pytest.raises(Stopped):
        waiting.on_signal(signal.SIGALRM, None)
    assert waiting.by_signal is None
    waiting.on_signal(signal.SIGINT, None)  # during the commit at the end: it is finished first


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stop().installed():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_printing_stops_at_the_count_and_at_a_wanted_end(capfdbinary: Any) -> None:
    stream, stop = FakeStream(count=5), Stop()
    _print(stream, reading(limit=3), {0: 5}, stop)  # type: ignore[arg-type]
    assert not stop.is_waiting
    stop.is_wanted = True
    _print(stream, reading(), {0: 5}, stop)  # type: ignore[arg-type]
    assert capfdbinary.readouterr().out == b"0\n1\n2\n0\n"


def test_a_partition_is_held_back_at_its_end_unless_the_reader_follows(capfdbinary: Any) -> None:
    stream = FakeStream(count=5)
    _print(stream, reading(), {0: 5}, Stop())  # type: ignore[arg-type]
    assert stream.paused == [("t", 0)]
    follower = FakeStream(count=5)
    _print(follower, reading(follow=True), {}, Stop())  # type: ignore[arg-type]
    assert follower.paused == []
