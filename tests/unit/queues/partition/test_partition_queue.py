"""What a partition promises its queue groups, on memory and on files, across restarts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from quiver.model.errors import DiskFull, LeaseLost
from quiver.model.queue import QueueSettings
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT
from quiver.queues.state.port import LeaseTerms
from quiver.records.build import build_frame
from quiver.records.header import FrameHeader, unpack_header
from quiver.records.read import open_frame
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from unit.queues.partition.queue_partition import (
    GROUP,
    START_MS,
    MoodyStorage,
    QueuePartition,
    numbered,
    offsets,
    values,
)


@pytest.fixture(params=["memory", "local"])
async def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[QueuePartition]:
    storage: MemoryStorage | LocalStorage = MemoryStorage()
    if request.param == "local":
        storage = LocalStorage(tmp_path)
        await storage.open()
    queue = QueuePartition(storage)
    await queue.open()
    await queue.begin()
    yield queue
    await queue.close()
    await storage.close()


async def test_a_whole_frame_is_delivered_as_it_is_stored(jobs: QueuePartition) -> None:
    await jobs.publish(*numbered(5), keys=[b"k"] * 5, headers=[{"a": b"b"}] * 5)
    [run] = await jobs.receive()
    piece = await jobs.partition.log.read(0, max_bytes=1 << 20)
    assert piece is not None
    assert bytes(run.frame) == bytes(await piece.read())
    piece.release()
    assert (run.start, run.end, run.attempt) == (0, 5, 1)
    assert (run.first_delivered_ms, run.deadline_ms, run.last_error) == (START_MS, START_MS + 30_000, "")


async def test_a_cut_frame_keeps_everything_of_its_messages(jobs: QueuePartition) -> None:
    times = [START_MS + n for n in range(6)]
    await jobs.publish(b"first")
    frame = await jobs.partition.append(*_frame(times))
    jobs.clock.ms += 500
    await jobs.receive(3)
    [run] = await jobs.receive(2)
    opened = open_frame(run.frame)
    assert list(opened.offsets()) == [3, 4]
    assert opened.keys() == [b"key2", None]
    assert opened.values() == [b"v2", None]
    assert opened.timestamps() == times[2:4]
    assert opened.headers() == [{"h": b"2"}, {"h": b"3"}]
    assert opened.ids() == [b"id2", b"id3"]
    header = opened.header
    assert (header.min_timestamp_ms, header.max_timestamp_ms) == (times[2], times[3])
    assert (header.append_time_ms, header.priority, header.schema_id) == (frame.append_time_ms, 2, 9)


def _frame(times: list[int]) -> tuple[bytes, FrameHeader]:
    frame = build_frame(
        [b"v0", b"v1", b"v2", None, b"v4", b"v5"],
        keys=[b"key0", b"key1", b"key2", None, b"key4", b"key5"],
        timestamps_ms=times,
        headers=[{"h": b"%d" % n} for n in range(6)],
        ids=[b"id%d" % n for n in range(6)],
        schema_id=9,
        compression="zstd",
    )
    return frame, unpack_header(frame)


async def test_runs_over_several_frames_come_in_order(jobs: QueuePartition) -> None:
    for start in range(0, 30, 3):
        await jobs.publish(*numbered(3, start))
    received = await jobs.receive(20)
    assert values(received) == numbered(20)
    assert offsets(received) == list(range(20))
    assert {run.lease_id for run in received} == {received[0].lease_id}
    assert offsets(await jobs.receive(20)) == list(range(20, 30))
    assert await jobs.receive() == []


async def test_each_level_is_delivered_by_itself(jobs: QueuePartition) -> None:
    for number in range(20):
        await jobs.publish(b"%d" % number, priority=number % 5)
    assert offsets(await jobs.receive(2, level=4)) == [4, 9]
    assert offsets(await jobs.receive(10, level=0)) == [0, 5, 10, 15]
    assert offsets(await jobs.receive(10, level=4)) == [14, 19]
    await jobs.publish(b"late", priority=0)
    assert offsets(await jobs.receive(10, level=0)) == [20]
    assert await jobs.partition_queue.issuer.read_ahead(GROUP, count=100) == [0, 4, 4, 4, 0]


async def test_leases_acks_and_attempts_outlive_a_restart(jobs: QueuePartition) -> None:
    await jobs.publish(*numbered(10))
    [first] = await jobs.receive(4)
    [second] = await jobs.receive(3)
    await jobs.settle(first, ACK, [(0, 2)])
    await jobs.settle(second, NACK, [(5, 6)], reason="boom", delay_ms=5_000)
    await jobs.restart()
    assert (await jobs.settle(first, ACK, [(0, 1)])).refused[0].error.code == "lease_lost"
    assert (await jobs.settle(first, ACK, [(2, 3)])).refused == []
    assert offsets(await jobs.receive()) == [7, 8, 9]
    await jobs.wait(5_000)
    [again] = await jobs.receive()
    assert (again.start, again.end, again.attempt, again.last_error) == (5, 6, 2, "boom")
    assert again.first_delivered_ms == START_MS
    assert again.lease_id > second.lease_id
    await jobs.wait(25_000)
    expired = await jobs.receive()
    assert offsets(expired) == [3, 4, 6, 7, 8, 9]
    assert {(run.attempt, run.last_error) for run in expired} == {(2, "the lease expired")}


async def test_an_expired_lease_can_be_settled_until_somebody_else_has_it(jobs: QueuePartition) -> None:
    await jobs.publish(*numbered(4))
    [run] = await jobs.receive()
    await jobs.wait(30_000)
    assert (await jobs.settle(run, ACK, [(0, 1)])).refused == []
    assert (await jobs.settle(run, EXTEND, [(1, 2)])).until_ms == START_MS + 60_000
    assert offsets(await jobs.receive()) == [2, 3]
    late = await jobs.settle(run, ACK)
    assert [(refused.start, refused.end) for refused in late.refused] == [(0, 1), (2, 4)]
    assert all(isinstance(refused.error, LeaseLost) for refused in late.refused)


async def test_a_nack_is_not_swallowed_by_an_ack(jobs: QueuePartition) -> None:
    await jobs.publish(*numbered(2))
    [run] = await jobs.receive()
    nacked = await jobs.settle(run, NACK, delay_ms=0)
    assert nacked.until_ms == START_MS
    assert len((await jobs.settle(run, ACK)).refused) == 1
    assert offsets(await jobs.receive()) == [0, 1]


async def test_backoff_doubles_up_to_its_limit(jobs: QueuePartition) -> None:
    jobs.settings = QueueSettings(max_attempts=10, backoff_ms=1_000, backoff_max_ms=3_000)
    await jobs.publish(b"x")
    pauses = []
    for _ in range(4):
        [run] = await jobs.receive()
        until_ms = (await jobs.settle(run, NACK)).until_ms
        assert until_ms is not None
        pauses.append(until_ms - jobs.clock.ms)
        await jobs.wait(pauses[-1] - 1)
        assert await jobs.receive() == []
        await jobs.wait(1)
    assert pauses == [1_000, 2_000, 3_000, 3_000]


async def test_out_of_attempts_rejected_and_expired_messages_die_once(jobs: QueuePartition) -> None:
    await jobs.publish(*numbered(3))
    await jobs.publish(b"short", b"long", expires_at_ms=[START_MS + 100, None])
    for attempt in (1, 2, 3):
        [run] = await jobs.receive(1)
        assert (run.start, run.attempt) == (0, attempt)
        settlement = await jobs.settle(run, NACK, delay_ms=0, reason=f"try {attempt}")
    assert [(dead.start, dead.reason) for dead in settlement.dead] == [(0, "max_attempts")]
    assert await jobs.partition_queue.dead_letters_arrived(settlement)
    [run] = await jobs.receive(1)
    assert await jobs.partition_queue.dead_letters_arrived(await jobs.settle(run, REJECT, reason="bad"))
    jobs.clock.ms += 100
    received = await jobs.receive()
    assert offsets(received) == [2, 4]
    await _until(lambda: len(jobs.dead) == 3)
    assert jobs.dead == [(0, "max_attempts", "try 3"), (1, "rejected", "bad"), (3, "expired", "")]
    assert jobs.partition_queue.outbox.open == {}
    await jobs.restart()
    assert len(jobs.moves) == 3
    [counters] = jobs.partition_queue.counters_by_group.values()
    assert counters.dead == 3
    assert await jobs.receive() == []


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0.001)


async def test_the_ttl_of_the_topic_counts_from_arrival(jobs: QueuePartition) -> None:
    await jobs.publish(b"own", b"topic's", expires_at_ms=[START_MS + 5_000, None])
    jobs.clock.ms += 1_000
    await jobs.publish(b"later")
    received = await jobs.receive(ttl_ms=1_000)
    assert offsets(received) == [0, 2]
    await _until(lambda: bool(jobs.dead))
    assert jobs.dead == [(1, "expired", "")]


async def test_a_lease_that_runs_out_for_the_last_time_is_death(jobs: QueuePartition) -> None:
    await jobs.publish(b"x")
    for _ in range(3):
        await jobs.receive()
        await jobs.wait(30_000)
    assert await jobs.receive() == []
    await _until(lambda: bool(jobs.dead))
    assert jobs.dead == [(0, "max_attempts", "the lease expired")]
    assert jobs.partition_queue.counters_by_group[GROUP].expired_leases == 3


async def test_moves_are_repeated_until_they_succeed_and_left_open_ones_go_on_after_a_restart(
    jobs: QueuePartition,
) -> None:
    await jobs.publish(*numbered(3))
    jobs.moves_fail = 2
    [run] = await jobs.receive()
    settlement = await jobs.settle(run, REJECT, [(0, 1)])
    assert await jobs.partition_queue.dead_letters_arrived(settlement)
    assert [move.id for move in jobs.moves] == [1]
    jobs.moves_fail = 10**6
    await jobs.settle(run, REJECT, [(1, 3)])
    await jobs.partition_queue.close()
    jobs.moves_fail = 0
    await jobs.open()
    await _until(lambda: len(jobs.moves) == 2)
    assert [offset for offset, _, _ in jobs.dead] == [0, 1, 2]
    assert [move.sequence for move in jobs.moves] == [0, 1]


async def test_nothing_dies_out_of_a_dead_letter_topic() -> None:
    dead_letters = QueuePartition(topic="jobs.dlq")
    await dead_letters.open()
    await dead_letters.begin()
    await dead_letters.publish(*numbered(2))
    [run] = await dead_letters.receive()
    assert (await dead_letters.settle(run, REJECT)).refused == []
    assert await dead_letters.receive() == []
    assert dead_letters.partition_queue.outbox.open == {}
    await dead_letters.restart()
    assert await dead_letters.receive() == []
    await dead_letters.close()


async def test_removed_dead_letters_reach_nobody() -> None:
    dead_letters = QueuePartition(topic="jobs.dlq")
    await dead_letters.open()
    await dead_letters.begin()
    await dead_letters.publish(*numbered(10))
    [held] = await dead_letters.receive(3)
    await dead_letters.partition_queue.remove_dead_letters([(2, 4), (6, 7)], [])
    assert offsets(await dead_letters.receive(5)) == [4, 5, 7]
    await dead_letters.settle(held, NACK, delay_ms=0)
    assert offsets(await dead_letters.receive()) == [0, 1, 8, 9]
    await dead_letters.kill()
    assert list(dead_letters.partition_queue.removed) == [(2, 4), (6, 7)]
    await dead_letters.begin(8)
    assert offsets(await dead_letters.receive(group=8)) == [0, 1, 4, 5, 7, 8, 9]
    await dead_letters.close()


async def test_what_does_not_fit_is_to_be_had_again_and_does_not_count(jobs: QueuePartition) -> None:
    await jobs.publish(*([b"x" * 1_000] * 10))
    await jobs.publish(*([b"y" * 1_000] * 10))
    received = await jobs.receive(max_bytes=5_000)
    assert offsets(received) == [0, 1, 2, 3]
    jobs.clock.ms += 10
    rest = await jobs.receive(max_bytes=1)
    assert offsets(rest) == [4]
    assert (rest[0].attempt, rest[0].first_delivered_ms) == (1, START_MS + 10)
    await jobs.restart()
    assert offsets(await jobs.receive()) == list(range(5, 20))
    assert jobs.partition_queue.state(GROUP).held_by() == {"ada": 20}  # type: ignore[union-attr]


async def test_two_groups_do_not_disturb_each_other(jobs: QueuePartition) -> None:
    await jobs.begin(8)
    await jobs.publish(*numbered(5))
    [mine] = await jobs.receive()
    await jobs.settle(mine, ACK)
    [theirs] = await jobs.receive(group=8)
    assert offsets([theirs]) == list(range(5))
    assert len((await jobs.settle(mine._replace(group_id=8), ACK)).refused) == 1
    await jobs.partition_queue.forget(GROUP)
    assert jobs.partition_queue.group_ids == {8}
    assert len((await jobs.settle(mine, ACK)).refused) == 1
    await jobs.restart()
    assert jobs.partition_queue.group_ids == {8}


async def test_retention_wins_over_unsettled_messages_and_they_are_counted_as_lost() -> None:
    jobs = QueuePartition(segment_bytes=64 * 1024)
    await jobs.open()
    await jobs.begin()
    for _ in range(3):
        await jobs.publish(*numbered(10))
        await jobs.partition.log.roll()
    [held] = await jobs.receive(5)
    await jobs.partition_queue.issuer.read_ahead(GROUP, count=15)
    await jobs.partition.log.drop_front(20)
    lease = jobs.partition_queue.issuer.new_lease_id()
    taken = jobs.partition_queue.issuer.take(GROUP, 2, 12, LeaseTerms(lease, "ada", START_MS + 1))
    received = await jobs.partition_queue.issuer.deliver(
        GROUP, lease, taken, ttl_ms=None, settings=jobs.settings, max_bytes=1_000_000
    )
    assert received == []
    assert jobs.partition_queue.counters_by_group[GROUP].lost == 12
    assert offsets(await jobs.receive()) == list(range(20, 30))
    assert jobs.partition_queue.counters_by_group[GROUP].lost == 20
    assert len((await jobs.settle(held, ACK)).refused) == 1
    await jobs.close()


async def test_retention_beyond_what_was_read() -> None:
    jobs = QueuePartition(segment_bytes=64 * 1024)
    await jobs.open()
    await jobs.begin()
    for _ in range(3):
        await jobs.publish(*numbered(10))
        await jobs.partition.log.roll()
    await jobs.partition.log.drop_front(20)
    assert offsets(await jobs.receive()) == list(range(20, 30))
    assert jobs.partition_queue.counters_by_group[GROUP].lost == 20
    await jobs.close()


async def test_ended_leases_are_had_again_at_once_and_count(jobs: QueuePartition) -> None:
    await jobs.publish(*numbered(4))
    await jobs.receive(2, consumer="ada")
    await jobs.receive(2, consumer="bob")
    await jobs.partition_queue.end_leases(GROUP, "ada")
    [again] = await jobs.receive(consumer="eve")
    assert (again.start, again.end, again.attempt) == (0, 2, 2)
    await jobs.partition_queue.end_leases(GROUP, "eve")
    await jobs.restart()
    await jobs.wait(0)
    [again] = await jobs.receive()
    assert (again.start, again.end, again.attempt) == (0, 2, 3)


async def test_groups_that_are_read_in_offset_order_ignore_levels_and_never_die_of_time(jobs: QueuePartition) -> None:
    await jobs.begin(8, in_offset_order=True)
    for number in range(6):
        await jobs.publish(b"%d" % number, priority=number % 3)
    for attempt in range(1, 6):
        received = await jobs.receive(4, group=8, level=0)
        assert offsets(received) == [0, 1, 2, 3]
        assert {run.attempt for run in received} == {attempt}
        await jobs.wait(30_000)
    await jobs.partition_queue.settle_below(8, 2)
    assert jobs.partition_queue.state(8).lowest_unsettled() == 2  # type: ignore[union-attr]
    jobs.partition_queue.rewind(8, 1)
    await jobs.restart()
    assert offsets(await jobs.receive(10, group=8, level=0)) == [1, 2, 3, 4, 5]


async def test_a_group_without_a_begin_has_nothing(jobs: QueuePartition) -> None:
    await jobs.publish(b"x")
    assert jobs.partition_queue.state(99) is None
    assert await jobs.receive(group=99) == []
    assert await jobs.partition_queue.issuer.read_ahead(99, count=1) == [0] * 5


async def test_a_full_journal_takes_changes_back() -> None:
    storage = MoodyStorage()
    jobs = QueuePartition(storage)
    await jobs.open()
    await jobs.begin()
    await jobs.publish(*numbered(6))
    [run] = await jobs.receive(3)
    storage.is_full = True
    for action in (ACK, NACK, REJECT, EXTEND):
        with pytest.raises(DiskFull):
            await jobs.settle(run, action, delay_ms=1)
    with pytest.raises(DiskFull):
        await jobs.begin(8)
    assert jobs.partition_queue.group_ids == {GROUP}
    assert jobs.partition_queue.outbox.open == {}
    with pytest.raises(DiskFull):
        await jobs.receive()
    storage.is_full = False
    assert (await jobs.settle(run, ACK)).refused == []
    [rest] = await jobs.receive()
    assert (rest.start, rest.end, rest.attempt) == (3, 6, 1)
    counters, undone = jobs.partition_queue.counters_by_group[GROUP], jobs.partition_queue.undone(GROUP)
    assert (counters.acks - undone.acks, counters.nacks - undone.nacks) == (3, 0)
    assert (counters.rejects - undone.rejects, counters.dead - undone.dead) == (0, 0)
    await jobs.kill()
    assert await jobs.receive() == []
    assert (await jobs.settle(rest, ACK)).refused == []
    await jobs.close()


async def test_a_delivery_that_is_given_up_does_not_count() -> None:
    storage = MoodyStorage()
    jobs = QueuePartition(storage)
    await jobs.open()
    await jobs.begin()
    await jobs.publish(*numbered(3))
    storage.is_slow = True
    receiving = asyncio.ensure_future(jobs.receive())
    while not (state := jobs.partition_queue.state(GROUP)) or not state.held_by():
        await asyncio.sleep(0)
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    storage.is_slow = False
    [run] = await jobs.receive()
    assert (run.start, run.end, run.attempt) == (0, 3, 1)
    await jobs.close()


async def test_a_lease_that_was_taken_first_is_on_the_journal_first() -> None:
    """The positions of a later lease go beyond the messages of an earlier one."""
    jobs = QueuePartition()
    await jobs.open()
    await jobs.begin()
    await jobs.publish(*numbered(6))
    await jobs.partition_queue.issuer.read_ahead(GROUP, count=6)
    early, late = jobs.partition_queue.issuer.new_lease_id(), jobs.partition_queue.issuer.new_lease_id()
    jobs.partition_queue.issuer.take(GROUP, 2, 3, LeaseTerms(early, "ada", START_MS + 1_000))
    taken = jobs.partition_queue.issuer.take(GROUP, 2, 3, LeaseTerms(late, "bob", START_MS + 1_000))
    await jobs.partition_queue.issuer.deliver(
        GROUP, late, taken, ttl_ms=None, settings=jobs.settings, max_bytes=1 << 20
    )
    await jobs.kill()
    await jobs.wait(1_000)
    assert offsets(await jobs.receive()) == list(range(6))
    await jobs.close()


async def test_snapshots_replace_the_journal(jobs: QueuePartition) -> None:
    await jobs.publish(*numbered(10))
    [run] = await jobs.receive(6)
    await jobs.settle(run, ACK, [(1, 2), (4, 5)])
    await jobs.settle(run, REJECT, [(0, 1)], reason="bad")
    jobs.clock.ms += 301_000
    await jobs.partition_queue.journal.snapshot_if_due()
    await jobs.settle(run, NACK, [(2, 3)], delay_ms=0, reason="later")
    await jobs.restart()
    await jobs.wait(0)
    received = await jobs.receive()
    assert offsets(received) == [3, 5, 2, 6, 7, 8, 9]
    assert [run.last_error for run in received] == ["the lease expired"] * 2 + ["later", ""]
    assert len(jobs.moves) == 1


async def test_a_rare_level_is_found_without_reading_all_that_lies_before_it(
    jobs: QueuePartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(40):
        await jobs.publish(bytes(50_000))
    await jobs.publish(b"urgent", priority=0)
    await jobs.publish(b"normal")
    reads: list[int] = []
    read = jobs.partition.log.read

    async def counted(offset: int, **options: int) -> object:
        reads.append(offset)
        return await read(offset, **options)

    monkeypatch.setattr(jobs.partition.log, "read", counted)
    assert values(await jobs.receive(level=0)) == [b"urgent"]
    assert reads == [40]
    assert offsets(await jobs.receive(41, max_bytes=1 << 24)) == [*range(40), 41]
    assert await jobs.receive(level=0) == []


async def test_what_arrives_while_the_levels_are_counted_is_found_next(
    jobs: QueuePartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    await jobs.publish(b"normal")
    await jobs.restart()
    count = jobs.partition.log.count_by_priority

    async def slow(offset: int) -> list[int]:
        found = await count(offset)
        await jobs.publish(b"urgent", priority=0)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(jobs.partition.log, "count_by_priority", slow)
        await jobs.partition_queue.issuer.read_ahead(GROUP, count=1, levels=1)
    assert values(await jobs.receive(level=0))[:1] == [b"urgent"]


async def test_what_arrives_while_a_level_is_searched_for_is_found_next(
    jobs: QueuePartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    await jobs.publish(b"first", priority=0)
    assert values(await jobs.receive(1, level=0)) == [b"first"]
    await jobs.publish(b"normal")
    await jobs.restart()
    find = jobs.partition.log.find_priority
    searched: list[int] = []

    async def slow(offset: int, priorities: int) -> int | None:
        found = await find(offset, priorities)
        if not searched:
            searched.append(offset)
            await jobs.publish(b"urgent", priority=0)
        return found

    monkeypatch.setattr(jobs.partition.log, "find_priority", slow)
    await jobs.partition_queue.issuer.read_ahead(GROUP, count=1, levels=1)
    assert searched == [1]
    assert values(await jobs.receive(level=0)) == [b"urgent"]


async def test_many_runs_are_settled_in_one_call(jobs: QueuePartition) -> None:
    await jobs.publish(*numbered(5_000))
    [run] = await jobs.receive(5_000)
    settlement = await jobs.settle(run, NACK, [(n, n + 1) for n in range(0, 5_000, 2)], delay_ms=0, reason="odd")
    assert (settlement.refused, settlement.until_ms) == ([], START_MS)
    settlement = await jobs.settle(run, ACK, [(n, n + 1) for n in range(4_999, -1, -1)])
    assert [refused.start for refused in settlement.refused] == list(range(0, 5_000, 2))
    assert str(settlement.refused[0].error).startswith("the lease on jobs-0 offset 0 is over")
    await jobs.restart()
    assert offsets(await jobs.receive(5_000)) == list(range(0, 5_000, 2))


@pytest.mark.parametrize("ending", ["finish", "take back"])
async def test_a_transaction_that_acknowledges_nothing_holds_up_no_snapshot(
    jobs: QueuePartition, ending: str
) -> None:
    await jobs.begin()
    await jobs.publish(b"a")
    (run,) = await jobs.receive()
    for runs in ([], [(run.start, run.end)]):
        prepared = jobs.partition_queue.settler.prepare_acks(run.group_id, run.lease_id, runs)
        if ending == "finish":
            await jobs.partition_queue.settler.finish_acks(prepared)
            await jobs.partition_queue.settler.finish_acks(prepared)
        else:
            jobs.partition_queue.settler.take_back_acks(prepared)
        before = jobs.partition_queue.journal.replay_bytes
        await jobs.partition_queue.journal.snapshot()
        assert jobs.partition_queue.journal.replay_bytes < before
        await jobs.publish(b"b")
        await jobs.receive()
