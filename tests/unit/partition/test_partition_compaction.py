"""Compaction of a partition: producers and transactions are known afterwards as before."""

from pathlib import Path

import pytest

from quiver.model.limits import Limits
from quiver.model.topic import TopicConfig
from quiver.partition.compaction import compact, is_due
from quiver.partition.partition import Partition
from quiver.partition.producers import ProducerTable
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Storage
from quiver.system.clock import SystemClock
from unit.log.keyed import Row, keyed_frame, stored_frames, stored_messages

CONFIG = TopicConfig(cleanup="compact", segment_bytes=64 * 1024)
NOW_MS = 10_000


@pytest.fixture(params=["memory", "local"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return MemoryStorage() if request.param == "memory" else await local(tmp_path)


async def local(root: Path) -> LocalStorage:
    storage = LocalStorage(root, LocalSettings(min_free_bytes=0))
    await storage.open()
    return storage


async def open_partition(storage: Storage, config: TopicConfig = CONFIG) -> Partition:
    log = await storage.open_log("topics/1/0", log_options(config))
    partition = Partition("t-0", log, PartitionSettings(config, Limits()), leader_epoch=1, clock=SystemClock())
    await partition.recover()
    return partition


async def send(
    partition: Partition, rows: list[Row], *, producer: int = 7, epoch: int = 0, sequence: int = 0, tx: bool = False
) -> tuple[int, bool]:
    frame = build_frame(
        [value for _, value in rows],
        keys=[key for key, _ in rows],
        timestamp_ms=1,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=tx,
    )
    done = await partition.append(frame, check_frame(frame, Limits()))
    return done.base_offset, done.duplicate


async def test_repeats_are_known_after_their_frames_are_gone(storage: Storage) -> None:
    partition = await open_partition(storage)
    for n in range(4):
        await send(partition, [(b"a", b"%d" % n), (b"b", b"%d" % n)], sequence=2 * n)
    done = await compact(partition, CONFIG, NOW_MS, roll=True)
    assert (done.records_before, done.records_after) == (8, 2)
    for _ in range(2):
        assert await send(partition, [(b"a", b"1"), (b"b", b"1")], sequence=2) == (2, True)
        await partition.close()
        partition = await open_partition(storage)
    assert await send(partition, [(b"a", b"4")], sequence=8) == (8, False)
    await partition.close()
    await storage.close()


def test_a_thinned_frame_counts_as_many_messages_as_were_sent() -> None:
    header = keyed_frame(20, [(b"a", b"1")], producer_id=7).header._replace(base_sequence=5, last_offset_delta=9)
    table = ProducerTable()
    table.record(header)
    state = table.get(7)
    assert state is not None
    assert state.next_sequence == 15
    repeat = header._replace(record_count=10)
    assert table.find_repeat(repeat) is not None, "the frame as it was sent is a repeat"


async def test_an_open_transaction_holds_what_is_behind_it(storage: Storage) -> None:
    partition = await open_partition(storage)
    await send(partition, [(b"a", b"1"), (b"a", b"2")])
    await partition.log.roll()
    await send(partition, [(b"a", b"3")], producer=8, tx=True)
    await send(partition, [(b"a", b"4")], sequence=2)
    done = await compact(partition, CONFIG, NOW_MS, roll=True)
    assert (done.records_before, done.records_after) == (4, 3)
    assert [message.value for message in await stored_messages(partition.log)] == [b"2", b"3", b"4"]
    await partition.append_marker(8, 0, commit=True)
    await compact(partition, CONFIG, NOW_MS, roll=True)
    assert [message.value for message in await stored_messages(partition.log)] == [b"4"]
    await partition.close()
    await storage.close()


async def test_aborted_data_goes_first_and_its_marker_a_pass_after_it_is_forgotten(storage: Storage) -> None:
    partition = await open_partition(storage)
    await send(partition, [(b"a", b"committed")])
    await send(partition, [(b"a", b"aborted"), (b"z", b"aborted")], producer=8, tx=True)
    await partition.append_marker(8, 0, commit=False)
    await send(partition, [(b"b", b"1")], producer=8, epoch=1, tx=True)
    await partition.append_marker(8, 1, commit=True)

    async def markers() -> list[int]:
        return [header.base_offset for header, _ in await stored_frames(partition.log) if header.is_control]

    def known() -> list[int]:
        found = partition.tables.transactions.aborted_within(0, partition.log.end_offset)
        return [aborted.marker_offset for aborted in found]

    for expected_markers, expected_known in (([3, 5], [3]), ([5], [])):
        await compact(partition, CONFIG, NOW_MS, roll=True)
        assert [m.value for m in await stored_messages(partition.log)] == [b"committed", b"1"]
        assert (await markers(), known()) == (expected_markers, expected_known)
    await partition.close()
    partition = await open_partition(storage)
    assert (await markers(), known()) == ([5], []), "whoever is told of it finds its end"
    await partition.close()
    await storage.close()


async def test_it_is_due_when_half_was_never_compacted(storage: Storage) -> None:
    partition = await open_partition(storage)
    assert not is_due(partition, CONFIG, NOW_MS)
    for n in range(10):
        await send(partition, [(b"%d" % n, b"x" * 1_000)], sequence=n)
    await partition.saved_state.save_now(roll=False)
    assert not is_due(partition, CONFIG, NOW_MS), "what is not closed does not count"
    await partition.log.roll()
    assert is_due(partition, CONFIG, NOW_MS)
    await compact(partition, CONFIG, NOW_MS)
    assert not is_due(partition, CONFIG, NOW_MS)
    for n in range(10, 19):
        await send(partition, [(b"%d" % n, b"x" * 1_000)], sequence=n)
    await partition.saved_state.save_now(roll=True)
    assert not is_due(partition, CONFIG, NOW_MS)
    for n in range(19, 22):
        await send(partition, [(b"%d" % n, b"x" * 1_000)], sequence=n)
    await partition.saved_state.save_now(roll=True)
    assert is_due(partition, CONFIG, NOW_MS)
    await partition.close()
    await storage.close()


async def test_nothing_goes_that_no_snapshot_knows(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = await open_partition(storage)
    await send(partition, [(b"a", b"1"), (b"a", b"2")])

    async def refuse(offset: int, data: bytes) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(partition.log, "save_snapshot", refuse)
    await compact(partition, CONFIG, NOW_MS, roll=True)
    assert len(await stored_messages(partition.log)) == 2
    monkeypatch.undo()
    await compact(partition, CONFIG, NOW_MS, roll=True)
    assert len(await stored_messages(partition.log)) == 1
    await partition.close()
    await storage.close()


async def test_an_old_active_segment_is_closed_also_without_retention(storage: Storage) -> None:
    config = TopicConfig(cleanup="compact", retention_ms=4)
    partition = await open_partition(storage, config)
    await send(partition, [(b"a", b"1")])
    clock_ms = partition.log.last_append_time_ms + 10
    await partition.log.retention_offset(now_ms=clock_ms, retention_ms=None, retention_bytes=None)
    await partition.saved_state.save_now(roll=False)
    assert is_due(partition, config, clock_ms)
    await partition.retain(config)
    assert len(await stored_messages(partition.log)) == 1, "compact alone deletes nothing"
    await partition.close()
    await storage.close()
