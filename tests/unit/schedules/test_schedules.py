"""Recurring schedules in a broker: what fires when, once, whatever happens in between."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from threading import RLock

import pytest

from quiver.broker.broker import Broker, BrokerSettings
from quiver.coordination.local import LOG_ID as METADATA
from quiver.messages.browse import BrowseRequest
from quiver.model.errors import (
    InvalidName,
    InvalidRequest,
    MessageTooLarge,
    ScheduleExists,
    ScheduleNotFound,
    ShuttingDown,
    TopicNotFound,
)
from quiver.model.message import StoredMessage
from quiver.model.priority import Priority
from quiver.model.schedule import Schedule, ScheduleChanges
from quiver.model.times import format_time
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.files import Buffer, Files
from quiver.testing.held_storage import HeldStorage

HOUR_MS = 3_600_000
NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z


class ClockInHand:
    def __init__(self, now_ms: int = NOON_MS) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return time.monotonic()


class Host:
    """A place for brokers, one after another, on the same storage."""

    def __init__(self, clock: ClockInHand) -> None:
        self._clock = clock
        self._storage = MemoryStorage()
        self._broker: Broker | None = None

    async def start(self, **settings: bool) -> Broker:
        self._broker = Broker(self._storage, clock=self._clock, settings=BrokerSettings(**settings))  # type: ignore[arg-type]
        await self._broker.start()
        return self._broker

    async def stop(self) -> None:
        if self._broker is not None:
            await self._broker.stop()
            self._broker = None

    async def restart(self) -> Broker:
        await self.stop()
        return await self.start()


@pytest.fixture
def clock() -> ClockInHand:
    return ClockInHand()


@pytest.fixture
async def host(clock: ClockInHand) -> AsyncIterator[Host]:
    host = Host(clock)
    yield host
    await host.stop()


async def begin(host: Host, *schedules: Schedule) -> Broker:
    broker = await host.start()
    await broker.create_topic("t", {"partitions": 2})
    await broker.create_topic("free", {})
    for schedule in schedules:
        await broker.schedules.add(schedule)
    return broker


def hourly(name: str = "s", **fields: object) -> Schedule:
    return Schedule(**{"name": name, "cron": "@hourly", "topic": "t", "value": b"tick", **fields})  # type: ignore[arg-type]


async def messages(broker: Broker, topic: str = "t") -> list[StoredMessage]:
    found: list[StoredMessage] = []
    for number in range(broker.topic(topic).config.partitions):
        found += (await broker.read_messages(topic, number, BrowseRequest(limit=10_000))).messages
    return sorted(found, key=lambda message: (message.timestamp_ms, message.headers["schedule.name"]))


async def settled(broker: Broker, count: int, topic: str = "t") -> list[StoredMessage]:
    """The messages of a topic, once there are so many, and nothing is due or on its way any more."""
    async with asyncio.timeout(10):
        while True:
            states = await broker.schedules.list()
            due = [each for each in states if each.next_ms is not None and each.next_ms <= broker.clock.now_ms()]
            if not due and not broker.schedules.on_the_way and len(found := await messages(broker, topic)) >= count:
                return found
            for state in due[:1]:  # a change makes it look at the clock
                await broker.schedules.alter(state.schedule.name, ScheduleChanges())
            await asyncio.sleep(0)


async def arrived(broker: Broker, count: int, topic: str) -> None:
    async with asyncio.timeout(10):
        while len(await messages(broker, topic)) < count:
            await broker.schedules.alter("other", ScheduleChanges())
            await asyncio.sleep(0)


def due_times(found: Sequence[StoredMessage]) -> list[str]:
    return [message.headers["schedule.time"].decode() for message in found]


class TestFiring:
    async def test_a_message_has_what_the_schedule_says(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly(key=b"k", headers={"h": b"1"}, priority=Priority.LOW))
        assert (await broker.schedules.get("s")).next_ms == NOON_MS + HOUR_MS
        assert await messages(broker) == []
        clock.at_ms = NOON_MS + HOUR_MS + 20
        [message] = await settled(broker, 1)
        assert (message.key, message.value, message.priority) == (b"k", b"tick", Priority.LOW)
        assert message.timestamp_ms == clock.at_ms
        assert message.headers == {
            "h": b"1",
            "schedule.name": b"s",
            "schedule.time": format_time(NOON_MS + HOUR_MS).encode(),
        }
        state = await broker.schedules.get("s")
        assert (state.last_ms, state.next_ms, state.fired_count) == (NOON_MS + HOUR_MS, NOON_MS + 2 * HOUR_MS, 1)

    async def test_each_time_has_its_message(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly("a"), hourly("b", cron="0,30 * * * *"))
        for n in range(1, 7):
            clock.at_ms = NOON_MS + n * HOUR_MS // 2
            await settled(broker, n + n // 2)
        found = await messages(broker)
        assert [m.headers["schedule.name"] for m in found] == [b"b", b"a", b"b", b"b", b"a", b"b", b"b", b"a", b"b"]
        assert {m.partition for m in found} == {0, 1}, "without a key they are spread over the partitions"

    async def test_many_at_the_same_time(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, *(hourly(f"s{n}") for n in range(250)))
        clock.at_ms = NOON_MS + HOUR_MS
        found = await settled(broker, 250)
        assert len({message.headers["schedule.name"] for message in found}) == len(found) == 250

    async def test_a_key_stays_in_its_partition(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly(key=b"k"))
        for n in (1, 2, 3):
            clock.at_ms = NOON_MS + n * HOUR_MS
            found = await settled(broker, n)
        assert len({message.partition for message in found}) == 1

    async def test_run_fires_once_and_leaves_the_times(self, host: Host) -> None:
        broker = await begin(host, hourly(is_paused=True))
        before = (await broker.schedules.get("s")).next_ms
        state = await broker.schedules.run("s")
        [message] = await messages(broker)
        assert message.headers["schedule.manual"] == b"true"
        assert state.next_ms == before
        assert state.last_ms == NOON_MS

    async def test_intervals_by_the_real_clock(self) -> None:
        broker = Broker(MemoryStorage())
        await broker.start()
        await broker.create_topic("t", {})
        added = await broker.schedules.add(hourly(cron="@every 100ms"))
        async with asyncio.timeout(10):
            while len(found := await messages(broker)) < 4:
                await asyncio.sleep(0)
        assert added.next_ms is not None
        times = due_times(found)
        possible = [format_time(added.next_ms + 100 * n) for n in range(200)]
        assert times == sorted(set(times))
        assert set(times) <= set(possible)
        await broker.stop()


class TestMissed:
    async def test_the_latest_is_made_up_for(self, host: Host, clock: ClockInHand) -> None:
        await begin(host, hourly())
        await host.stop()
        clock.at_ms = NOON_MS + 5 * HOUR_MS + 60_000
        broker = await host.start()
        [message] = await settled(broker, 1)
        assert message.headers["schedule.late"] == b"true"
        assert due_times([message]) == [format_time(NOON_MS + 5 * HOUR_MS)]
        clock.at_ms = NOON_MS + 6 * HOUR_MS
        _, message = await settled(broker, 2)
        assert "schedule.late" not in message.headers

    async def test_a_single_one_is_late_too(self, host: Host, clock: ClockInHand) -> None:
        await begin(host, hourly())
        await host.stop()
        clock.at_ms = NOON_MS + HOUR_MS + 5
        [message] = await settled(await host.start(), 1)
        assert message.headers["schedule.late"] == b"true"

    async def test_a_restart_repeats_nothing(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly())
        for n in range(1, 4):
            clock.at_ms = NOON_MS + n * HOUR_MS
            await settled(broker, n)
            broker = await host.restart()
            assert due_times(await settled(broker, n)) == [
                format_time(NOON_MS + k * HOUR_MS) for k in range(1, n + 1)
            ]
        assert (await broker.schedules.get("s")).fired_count == 3

    async def test_a_clock_that_goes_back_fires_nothing_again(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly())
        clock.at_ms = NOON_MS + HOUR_MS
        await settled(broker, 1)
        clock.at_ms = NOON_MS + HOUR_MS // 2
        broker = await host.restart()
        clock.at_ms = NOON_MS + HOUR_MS
        assert len(await settled(broker, 1)) == 1

    async def test_one_that_was_added_by_a_clock_that_was_ahead(self, host: Host, clock: ClockInHand) -> None:
        clock.at_ms = NOON_MS + HOUR_MS
        broker = await begin(host, hourly(cron="@every 10s"))
        clock.at_ms = NOON_MS
        for paused in (True, False):
            state = await broker.schedules.alter("s", ScheduleChanges(is_paused=paused))
        assert state.next_ms == NOON_MS + 10_000

    async def test_a_pause_misses_nothing(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly())
        assert (await broker.schedules.alter("s", ScheduleChanges(is_paused=True))).next_ms is None
        clock.at_ms = NOON_MS + 3 * HOUR_MS + 1
        broker = await host.restart()
        state = await broker.schedules.alter("s", ScheduleChanges(is_paused=False))
        assert state.next_ms == NOON_MS + 4 * HOUR_MS
        assert await messages(broker) == []


class TestTopics:
    async def test_a_deleted_topic_is_an_error_and_it_goes_on(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly())
        await broker.delete_topic("t")
        clock.at_ms = NOON_MS + HOUR_MS
        async with asyncio.timeout(10):
            while not (await broker.schedules.get("s")).error:
                await broker.schedules.alter("s", ScheduleChanges())
                await asyncio.sleep(0)
        assert "there is no topic 't'" in (await broker.schedules.get("s")).error
        assert (await broker.schedules.get("s")).next_ms == NOON_MS + 2 * HOUR_MS
        with pytest.raises(TopicNotFound):
            await broker.schedules.run("s")
        await broker.create_topic("t", {})
        clock.at_ms = NOON_MS + 2 * HOUR_MS
        assert due_times(await settled(broker, 1)) == [format_time(clock.at_ms)]
        assert (await broker.schedules.get("s")).error == ""

    async def test_a_topic_that_takes_nothing_holds_up_so_many(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly(key=b"k"), hourly("other", topic="free"))
        for partition in broker._partitions.of(broker.topic("t").id):
            partition.abandon()
        for n in range(1, 21):
            clock.at_ms = NOON_MS + n * HOUR_MS
            await arrived(broker, n, "free")
        assert broker.schedules.on_the_way == 16
        assert "shutting down" in (await broker.schedules.get("s")).error
        broker = await host.restart()
        found = await settled(broker, 17)
        assert due_times(found) == [format_time(NOON_MS + n * HOUR_MS) for n in [*range(1, 17), 20]]
        assert ["schedule.late" in message.headers for message in found] == [False] * 16 + [True]
        assert (await broker.schedules.get("s")).error == ""

    async def test_with_auto_create_it_is_made(self, host: Host, clock: ClockInHand) -> None:
        broker = await host.start(auto_create=True)
        await broker.schedules.add(hourly(topic="new"))
        await broker.delete_topic("new")
        clock.at_ms = NOON_MS + HOUR_MS
        assert len(await settled(broker, 1, "new")) == 1


async def test_a_schedule_that_is_removed_while_the_topic_of_another_is_created_holds_up_nothing(
    clock: ClockInHand, caplog: pytest.LogCaptureFixture
) -> None:
    storage = HeldStorage()
    broker = Broker(storage, clock=clock, settings=BrokerSettings(auto_create=True))
    await broker.start()
    for name in ("a", "b"):
        await broker.schedules.add(hourly(name, topic=name))
        await broker.delete_topic(name)
    hold = storage.hold(METADATA, "append")
    clock.at_ms += HOUR_MS
    await broker.schedules.alter("a", ScheduleChanges())  # makes it look at the clock
    await hold.reached()
    await broker.schedules.remove("b")
    hold.release()
    await settled(broker, 1, "a")
    assert "could not fire" not in caplog.text
    await broker.stop()


class TestChanging:
    async def test_names(self, host: Host) -> None:
        broker = await begin(host, hourly())
        with pytest.raises(ScheduleExists):
            await broker.schedules.add(hourly())
        with pytest.raises(InvalidName):
            await broker.schedules.add(hourly("a b"))
        given = (await broker.schedules.add(hourly(""))).schedule.name
        assert given.startswith("t-")
        assert [state.schedule.name for state in await broker.schedules.list()] == sorted(["s", given])

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"cron": "nonsense"}, InvalidRequest),
            ({"cron": "0 0 */31 * 1#2"}, InvalidRequest),
            ({"timezone": "Mars/Olympus"}, InvalidRequest),
            ({"topic": "none"}, TopicNotFound),
            ({"value": bytes(2 << 20)}, MessageTooLarge),
        ],
    )
    async def test_what_cannot_work_is_refused(
        self, host: Host, fields: dict[str, object], error: type[Exception]
    ) -> None:
        broker = await begin(host, hourly("other"))
        with pytest.raises(error):
            await broker.schedules.add(hourly(**fields))
        with pytest.raises(error):
            await broker.schedules.alter("other", ScheduleChanges(**fields))  # type: ignore[arg-type]
        assert (await broker.schedules.get("other")).schedule.value == b"tick"

    async def test_changes(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly())
        state = await broker.schedules.alter(
            "s", ScheduleChanges(cron="0 0 * * *", timezone="Asia/Tokyo", value=b"x")
        )
        assert state.next_ms == NOON_MS + 3 * HOUR_MS, "midnight in Tokyo"
        broker = await host.restart()
        clock.at_ms = NOON_MS + 3 * HOUR_MS
        assert [message.value for message in await settled(broker, 1)] == [b"x"]

    async def test_another_value_does_not_skip_what_is_due(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly())
        clock.at_ms = NOON_MS + HOUR_MS + 5
        await broker.schedules.alter("s", ScheduleChanges(value=b"new"))
        assert due_times(await settled(broker, 1)) == [format_time(NOON_MS + HOUR_MS)]

    async def test_removed_ones_fire_no_more(self, host: Host, clock: ClockInHand) -> None:
        broker = await begin(host, hourly(), hourly("other"))
        await broker.schedules.remove("s")
        with pytest.raises(ScheduleNotFound):
            await broker.schedules.get("s")
        with pytest.raises(ScheduleNotFound):
            await broker.schedules.remove("s")
        clock.at_ms = NOON_MS + HOUR_MS
        broker = await host.restart()
        assert [message.headers["schedule.name"] for message in await settled(broker, 1)] == [b"other"]

    async def test_whoever_asked_may_go(self, tmp_path: Path, clock: ClockInHand) -> None:
        """A client that is gone while its change is being written leaves it whole, and nothing in the way."""
        broker, storage = await open_broker(tmp_path / "data", clock)
        await broker.create_topic("t", {"partitions": 1})
        await broker.schedules.add(hourly())
        for request in (broker.schedules.run("s"), broker.schedules.add(hourly("b")), broker.schedules.run("s")):
            asking = asyncio.create_task(request)
            for _ in range(4):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        await broker.schedules.run("s")
        assert len(await settled(broker, 3)) == 3
        assert (await broker.schedules.get("b")).next_ms == NOON_MS + HOUR_MS
        await broker.stop()
        await storage.close()
        broker, storage = await open_broker(tmp_path / "data", clock)
        assert len(await settled(broker, 3)) == 3
        assert (await broker.schedules.get("s")).fired_count == 3
        await broker.stop()
        await storage.close()

    async def test_a_stopped_broker_refuses(self, host: Host) -> None:
        broker = await begin(host)
        await host.stop()
        with pytest.raises(ShuttingDown):
            await broker.schedules.add(hourly())


class CopiedFiles(Files):
    """Keeps a copy of a directory as it is behind every write: what a kill at that moment would leave."""

    def __init__(self, root: Path, copies: Path) -> None:
        self._root, self._copies = root, copies
        self._lock = RLock()
        self.count = 0
        self.is_on = False

    def _copy(self) -> None:
        if self.is_on:
            shutil.copytree(self._root, self._copies / str(self.count))
            self.count += 1

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        with self._lock:
            written = super().pwritev(fd, buffers, position)
            self._copy()
            return written

    def open(self, path: Path, *, create: bool = False) -> int:
        with self._lock:
            return super().open(path, create=create)

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            super().rename(source, target)
            self._copy()


async def open_broker(root: Path, clock: ClockInHand, files: Files | None = None) -> tuple[Broker, LocalStorage]:
    storage = LocalStorage(root, LocalSettings(min_free_bytes=0), LocalSystem(files=files or Files()))
    await storage.open()
    broker = Broker(storage, clock=clock)
    await broker.start()
    return broker, storage


async def test_a_kill_at_any_write_neither_doubles_nor_loses(tmp_path: Path, clock: ClockInHand) -> None:
    files = CopiedFiles(tmp_path / "data", tmp_path)
    broker, storage = await open_broker(tmp_path / "data", clock, files)
    await broker.create_topic("t", {"partitions": 1})
    await broker.schedules.add(hourly("a"))
    await broker.schedules.add(hourly("b"))
    files.is_on = True
    for n in (1, 2):
        clock.at_ms = NOON_MS + n * HOUR_MS
        await settled(broker, 2 * n)
    await broker.stop()
    files.is_on = False
    await storage.close()
    assert files.count >= 6
    for number in range(files.count):
        broker, storage = await open_broker(tmp_path / str(number), clock)
        found = await settled(broker, 2)
        for name in (b"a", b"b"):
            own = due_times([message for message in found if message.headers["schedule.name"] == name])
            assert len(set(own)) == len(own), f"after write {number}: a firing came twice"
            assert own[-1] == format_time(clock.at_ms), f"after write {number}: the last firing is missing"
        await broker.stop()
        await storage.close()
