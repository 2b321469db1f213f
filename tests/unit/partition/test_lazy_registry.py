"""A registry that opens what belongs to partitions when it is first asked for."""

import asyncio

import pytest

from quiver.model.errors import CorruptData, ShuttingDown, TopicNotFound
from quiver.model.names import TopicPartition
from quiver.partition.lazy_registry import LazyRegistry


class Opener:
    """Opens text. `gate` holds it back; what `errors` has for a place is raised once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.errors: dict[TopicPartition, Exception] = {}
        self.calls: list[TopicPartition] = []
        self.told: list[tuple[TopicPartition, str, bool]] = []
        self.registry = LazyRegistry(self)

    async def open(self, place: TopicPartition) -> str:
        self.calls.append(place)
        self.begun.set()
        await self.gate.wait()
        if place in self.errors:
            raise self.errors.pop(place)
        return f"{place.topic_id}-{place.partition}"

    def opened(self, place: TopicPartition, value: str) -> None:
        self.told.append((place, value, self.registry.get(*place) == value))


async def test_it_is_opened_once_however_many_ask() -> None:
    opener = Opener()
    registry = opener.registry
    assert (registry.get(1, 0), registry.of(1), registry.all()) == (None, {}, [])
    assert await asyncio.gather(*(registry.open(1, 0) for _ in range(5))) == ["1-0"] * 5
    assert await registry.open(1, 0) == "1-0"
    assert opener.calls == [TopicPartition(1, 0)]
    assert opener.told == [(TopicPartition(1, 0), "1-0", True)]
    assert (registry.get(1, 0), registry.of(1), registry.all()) == ("1-0", {0: "1-0"}, ["1-0"])


async def test_a_caller_that_gives_up_stops_nobody_else() -> None:
    opener = Opener()
    opener.gate.clear()
    first = asyncio.ensure_future(opener.registry.open(1, 0))
    await opener.begun.wait()
    second = asyncio.ensure_future(opener.registry.open(1, 0))
    first.cancel()
    opener.gate.set()
    assert await second == "1-0"
    assert first.cancelled()


async def test_what_cannot_be_opened_is_kept_as_a_problem_and_tried_again() -> None:
    opener, place = Opener(), TopicPartition(1, 0)
    opener.errors[place] = CorruptData("torn", where="here")
    with pytest.raises(CorruptData):
        await opener.registry.open(*place)
    assert list(opener.registry.problems) == [place]
    assert opener.registry.get(*place) is None
    assert await opener.registry.open(*place) == "1-0"
    assert opener.registry.problems == {}


async def test_a_topic_that_is_gone_is_no_problem() -> None:
    opener, place = Opener(), TopicPartition(1, 0)
    opener.errors[place] = TopicNotFound(topic="t")
    with pytest.raises(TopicNotFound):
        await opener.registry.open(*place)
    assert opener.registry.problems == {}


async def test_at_startup_one_that_fails_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    opener = Opener()
    opener.errors[TopicPartition(1, 1)] = OSError("no such disk")
    await opener.registry.open_all([TopicPartition(1, number) for number in range(3)], "queue")
    assert opener.registry.all() == ["1-0", "1-2"]
    assert "the queue of topic id 1, partition 1 cannot be opened: no such disk" in caplog.text


async def test_those_of_a_topic_are_withdrawn_also_while_they_are_being_opened() -> None:
    opener = Opener()
    registry = opener.registry
    await registry.open(1, 0)
    await registry.open(2, 0)
    opener.begun.clear()
    opener.gate.clear()
    late = asyncio.ensure_future(registry.open(1, 1))
    await opener.begun.wait()
    withdrawn = asyncio.ensure_future(registry.withdraw(1))
    opener.gate.set()
    assert await withdrawn == ["1-0", "1-1"]
    assert await late == "1-1"
    assert registry.all() == ["2-0"]


async def test_once_closed_it_opens_nothing_new() -> None:
    opener = Opener()
    await opener.registry.open(1, 0)
    assert await opener.registry.close() == ["1-0"]
    assert await opener.registry.open(1, 0) == "1-0"
    with pytest.raises(ShuttingDown):
        await opener.registry.open(1, 1)


async def test_who_follows_a_topic_sees_what_is_opened_later_and_nothing_after_it_is_withdrawn() -> None:
    registry = Opener().registry
    followed = registry.follow(1)
    assert followed == {}
    await registry.open(1, 0)
    await registry.open(2, 0)
    assert followed == {0: "1-0"} == registry.of(1)
    assert await registry.withdraw(1) == ["1-0"]
    assert followed == {}
