"""Transactions over several owners: all or nothing, whatever is lost, repeated or killed on the way."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest
from quiver.messages.browse import BrowseRequest
from quiver.model.errors import (
    InvalidRequest,
    LeaseLost,
    ProducerFenced,
    ShuttingDown,
    StalePartitionCount,
    TopicNotFound,
    TransactionConflict,
    UnknownProducer,
    WorkerUnavailable,
)
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, SettleRequest
from quiver.model.transaction import CommitPart, GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.queues.receive import Received
from quiver.records.build import build_frame
from quiver.routing.transactions.owner_requests import FinishPart, Join, PreparePart
from quiver.testing.workers import WorkerSet
from quiver.transactions.coordinator import LOG_ID as DECISIONS

COUNT = 3
FRAMES = [(topic, partition) for topic in ("out", "more") for partition in range(COUNT)]


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        for name in ("out", "more", "in", "jobs"):
            await started[0].broker.create_topic(name, {"partitions": COUNT})
        for name in ("in", "jobs"):
            await asyncio.gather(*(_put(started, name, partition, b"x") for partition in range(COUNT)))
        yield started


def _put(workers: WorkerSet, topic: str, partition: int, value: bytes) -> Awaitable[Any]:
    return workers[1].broker.produce(
        workers[1].broker.topic(topic).id, partition, build_frame([value], timestamp_ms=1)
    )


def group_of(workers: WorkerSet, worker: int) -> str:
    """The name of a group that a worker owns."""
    placement = workers[worker].local.settings.placement
    return next(name for n in range(100) if placement.group_worker(name := f"g{n}") == worker)


def frame(key: ProducerKey, value: bytes, sequence: int = 0, **options: Any) -> bytes:
    return bytes(
        build_frame(
            [value],
            timestamp_ms=1,
            producer_id=key.producer_id,
            producer_epoch=key.epoch,
            base_sequence=sequence,
            transactional=True,
            **options,
        )
    )


async def leased(workers: WorkerSet) -> list[Received]:
    request = ReceiveRequest([workers[2].broker.topic("jobs").id], "consumers", "c", max_messages=100)
    found: list[Received] = []
    while sum(one.run.end - one.run.start for one in found) < COUNT:
        found += await workers[2].broker.queues.receive(request)
    return found


def acks_of(received: list[Received]) -> list[LeasedAcks]:
    return [
        LeasedAcks(
            one.topic.id, one.run.partition, one.run.group_id, one.run.lease_id, [(one.run.start, one.run.end)]
        )
        for one in received
    ]


def offsets_of(workers: WorkerSet) -> list[GroupOffsetCommit]:
    """A group of each worker commits what is in a partition of the next one."""
    topic_id = workers[1].broker.topic("in").id
    return [GroupOffsetCommit(group_of(workers, n), [CommitPart(topic_id, (n + 1) % COUNT, 1)]) for n in range(COUNT)]


class Seen(NamedTuple):
    messages: int
    offsets: int
    acked: int
    delayed: int


NOTHING = Seen(0, 0, 0, 0)
EVERYTHING = Seen(len(FRAMES), COUNT, COUNT, 1)


async def seen(workers: WorkerSet) -> Seen:
    """What is left when nothing is undecided any more, anywhere."""
    await settled(workers)
    messages = 0
    for topic, partition in FRAMES:
        messages += len((await workers[1].broker.read_messages(topic, partition, BrowseRequest())).messages)
    offsets = acked = delayed = 0
    for commit in offsets_of(workers):
        place = TopicPartition(commit.offsets[0].topic_id, commit.offsets[0].partition)
        local = workers[workers[0].local.settings.placement.group_worker(commit.group)].local
        offsets += local.groups.find(commit.group) is not None and place in local.streams.group(commit.group).offsets
    topic_id = workers[0].broker.topic("jobs").id
    for number in range(COUNT):
        local = workers[number].local
        delayed += (await local.delays.page("more", skip=0, limit=10)).total
        for queue in local.queues.partition_queues(topic_id).values():
            acked += queue.settled_offset(local.groups.group("consumers").id) == 1
    return Seen(messages, offsets, acked, delayed)


async def settled(workers: WorkerSet) -> None:
    async with asyncio.timeout(20):
        await workers[0].local.transactions.ready()
        while any(_is_busy(workers, number) for number in range(COUNT)):
            await asyncio.sleep(0)


def _is_busy(workers: WorkerSet, number: int) -> bool:
    units = workers[number].local.transactions.owner._units
    return bool(units.prepared() or list(units.open_in_logs()))


Step = Callable[[], Awaitable[Any]]


async def repeated(step: Step) -> Any:
    """As clients do: again while it may help."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await step()
            except (WorkerUnavailable, ShuttingDown, TransactionConflict):
                await asyncio.sleep(0)
            except (AssertionError, TopicNotFound):  # this worker was killed, or has not started yet
                await asyncio.sleep(0)


async def transfer(workers: WorkerSet, acks: list[LeasedAcks]) -> bool:
    """Everything in one transaction, through all workers; whether it was committed."""
    key: ProducerKey = await repeated(lambda: workers[2].broker.transactions.init("id"))
    topics = {name: workers[1].broker.topic(name).id for name in ("out", "more")}
    try:
        for number, (topic, partition) in enumerate(FRAMES):
            await repeated(
                lambda n=number, t=topic, p=partition: workers[n % COUNT].broker.produce(  # type: ignore[misc]
                    topics[t], p, frame(key, b"m")
                )
            )
        delayed = frame(key, b"later", deliver_at_ms=[int(time.time() * 1000) + 3_600_000])
        await repeated(lambda: workers[0].broker.produce(topics["more"], 1, delayed))
        await repeated(lambda: workers[1].broker.transactions.commit([key], offsets=offsets_of(workers), acks=acks))
        return True
    except (ProducerFenced, InvalidRequest, LeaseLost):
        await repeated(lambda: workers[1].broker.transactions.abort([key]))
        return False


async def test_a_commit_over_all_owners(workers: WorkerSet) -> None:
    acks = acks_of(await leased(workers))
    assert await transfer(workers, acks)
    assert await seen(workers) == EVERYTHING
    lost = await workers[0].broker.queues.settle(
        [SettleRequest(each.topic_id, each.partition, each.group_id, each.lease_id, ACK, each.runs) for each in acks]
    )
    assert all(settlement.refused for settlement in lost), "they are settled"
    stats = await workers[2].broker.transactions.stats()
    assert (stats.active, stats.committed, stats.aborted) == (0, 1, 0)
    found, total = await workers[1].broker.transactions.producers()
    assert (total, found[0].transactional_id, found[0].last_committed) == (1, "id", True)


async def test_an_abort_over_all_owners(workers: WorkerSet) -> None:
    acks = acks_of(await leased(workers))
    key = await workers[1].broker.transactions.init("id")
    await workers[2].broker.produce(workers[0].broker.topic("out").id, 1, frame(key, b"m"))
    await workers[2].broker.transactions.add_acks(key.producer_id, key.epoch, acks)
    await workers[0].broker.transactions.abort([key])
    assert await seen(workers) == NOTHING
    settlements = await workers[0].broker.queues.settle(
        [SettleRequest(each.topic_id, each.partition, each.group_id, each.lease_id, ACK, each.runs) for each in acks]
    )
    assert not any(settlement.refused for settlement in settlements), "they belong to their holder"


async def test_single_messages_go_to_every_owner(workers: WorkerSet) -> None:
    broker = workers[1].broker
    key = await broker.transactions.init()
    for sequence in range(2):
        for partition in range(COUNT):
            message = NewMessage(value=b"m", partition=partition)
            published = await broker.transactions.publish(
                key.producer_id, key.epoch, "out", message, sequence=sequence
            )
            assert (published.partition, published.offset, published.duplicate) == (partition, sequence, False)
            again = await workers[2].broker.transactions.publish(
                key.producer_id, key.epoch, "out", message, sequence=sequence
            )
            assert (again.offset, again.duplicate) == (sequence, True)
    answer = await broker.transactions.commit([key], key="the key", description="all of it")
    assert answer.producers == [ProducerKey(key.producer_id, key.epoch + 1)]
    assert (await workers[0].broker.transactions.commit([key], key="the key")).is_repeat
    assert (await seen(workers)).messages == 2 * COUNT


async def test_frames_of_a_pipelined_commit_are_in_it(workers: WorkerSet) -> None:
    """They go to other workers than the commit."""
    key = await workers[1].broker.transactions.init()
    topic_id = workers[1].broker.topic("out").id
    frames = [workers[1].broker.produce(topic_id, partition, frame(key, b"m")) for partition in range(COUNT)]
    await workers[1].broker.transactions.commit([key])
    await asyncio.gather(*frames)
    assert (await seen(workers)).messages == COUNT
    key = await workers[1].broker.transactions.init()
    refused = [workers[1].broker.produce(topic_id, p, frame(key, b"m", sequence=7)) for p in range(COUNT)]
    with pytest.raises(InvalidRequest, match="must be aborted"):
        await workers[1].broker.transactions.commit([key])
    await asyncio.gather(*refused, return_exceptions=True)
    await workers[1].broker.transactions.abort([key])


async def test_a_refused_frame_that_its_owner_gets_again_is_in_the_transaction(workers: WorkerSet) -> None:
    """The worker that had passed it on does not see that."""
    key = await workers[1].broker.transactions.init()
    topic_id = workers[1].broker.topic("out").id
    for partition in range(COUNT):
        owner = workers[_owner(workers, "out", partition)]
        with pytest.raises(UnknownProducer):
            await workers[1].broker.produce(topic_id, partition, frame(key, b"m", sequence=1))
        for sequence in range(2):
            await owner.broker.produce(topic_id, partition, frame(key, b"m", sequence=sequence))
    await workers[1].broker.transactions.commit([key])
    assert (await seen(workers)).messages == 2 * COUNT


async def test_frames_for_a_partition_count_that_is_out_of_date_are_not_part_of_it(workers: WorkerSet) -> None:
    """Their sender spreads the messages again, so nothing is missing."""
    key = await workers[1].broker.transactions.init()
    topic_id = workers[1].broker.topic("out").id
    for partition in range(COUNT):
        with pytest.raises(StalePartitionCount):
            await workers[1].broker.produce(topic_id, partition, frame(key, b"m"), partition_count=COUNT - 1)
        await workers[1].broker.produce(topic_id, partition, frame(key, b"m"), partition_count=COUNT)
    await workers[1].broker.transactions.commit([key])
    assert (await seen(workers)).messages == COUNT


async def test_a_lost_lease_of_one_owner_fails_the_commit_everywhere(workers: WorkerSet) -> None:
    acks = acks_of(await leased(workers))
    taken = acks[1]
    await workers[0].broker.queues.settle(
        [SettleRequest(taken.topic_id, taken.partition, taken.group_id, taken.lease_id, ACK, taken.runs)]
    )
    key = await workers[1].broker.transactions.init()
    await workers[2].broker.produce(workers[0].broker.topic("out").id, 2, frame(key, b"m"))
    with pytest.raises(LeaseLost):
        await workers[2].broker.transactions.commit([key], acks=acks, offsets=offsets_of(workers))
    await workers[2].broker.transactions.abort([key])
    assert await seen(workers) == Seen(0, 0, 1, 0)
    key = await workers[1].broker.transactions.init()
    rest = [each for each in acks if each is not taken]
    await workers[1].broker.transactions.commit([key], acks=rest, offsets=offsets_of(workers))
    assert await seen(workers) == Seen(0, COUNT, COUNT, 0)


async def test_what_is_prepared_is_held_until_the_outcome_is_known(workers: WorkerSet) -> None:
    """The decision hangs, and an owner is killed: nobody gets the messages, and the group does not move on."""
    acks = acks_of(await leased(workers))
    [remote] = [each for each in acks if _owner(workers, "jobs", each.partition) == 1]
    group = group_of(workers, 1)
    key = await workers[2].broker.transactions.init()
    deciding = workers.storage(0).hold(DECISIONS, "append")
    offsets = [each for each in offsets_of(workers) if each.group == group]
    committing = asyncio.ensure_future(workers[2].broker.transactions.commit([key], acks=[remote], offsets=offsets))
    await deciding.reached()
    workers.kill(1)
    await workers.start(1)
    local = workers[1].local
    ack = SettleRequest(remote.topic_id, remote.partition, remote.group_id, remote.lease_id, ACK, remote.runs)
    [settlement] = await local.queues.settle([ack])
    assert isinstance(settlement.refused[0].error, LeaseLost)
    await local.queues.expire_due()
    state = local.queues.partition_queues(remote.topic_id)[remote.partition].state(remote.group_id)
    assert state is not None
    assert state.counts().leased == 1
    asking = asyncio.ensure_future(local.streams.committed(group))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not asking.done()
    assert not committing.done()
    deciding.release()
    await committing
    assert await asking == {"in": {2: 1}}
    assert await seen(workers) == Seen(0, 1, 1, 0)


def _owner(workers: WorkerSet, topic: str, partition: int) -> int:
    return workers[1].local.settings.placement.partition_worker(topic, partition)


async def test_a_restart_of_the_coordinator_aborts_and_that_of_an_owner_does_not(workers: WorkerSet) -> None:
    topic_id = workers[0].broker.topic("out").id
    key = await workers[1].broker.transactions.init("id")
    for partition in range(COUNT):
        await workers[2].broker.produce(topic_id, partition, frame(key, b"m"))
    workers.kill(2)
    await workers.start(2)
    for partition in range(COUNT):
        await repeated(lambda p=partition: workers[2].broker.produce(topic_id, p, frame(key, b"m", 1)))  # type: ignore[misc]
    key = (await repeated(lambda: workers[1].broker.transactions.commit([key]))).producers[0]
    assert (await seen(workers)).messages == 2 * COUNT
    for partition in range(COUNT):
        await workers[2].broker.produce(topic_id, partition, frame(key, b"m"))
    workers.kill(0)
    [partition] = [number for number in range(COUNT) if _owner(workers, "more", number) == 1]
    while (link := workers[1].peers.links_to(0)) is not None and link.is_connected:
        await asyncio.sleep(0)
    # It waits for the next coordinator, which waits for worker 1 to end the transaction.
    late = workers[1].broker.produce(workers[1].broker.topic("more").id, partition, frame(key, b"m"))
    await workers.start(0)
    async with asyncio.timeout(10):
        await workers[0].local.transactions.ready()
        with pytest.raises(ProducerFenced):
            await late
    with pytest.raises(ProducerFenced):
        await repeated(lambda: workers[1].broker.transactions.commit([key]))
    for partition in range(COUNT):
        with pytest.raises(ProducerFenced):
            await repeated(lambda p=partition: workers[2].broker.produce(topic_id, p, frame(key, b"m", 1)))  # type: ignore[misc]
    assert (await seen(workers)).messages == 2 * COUNT
    [following] = (await workers[1].broker.transactions.abort([key])).producers
    await workers[2].broker.produce(topic_id, 1, frame(following, b"m"))
    await workers[1].broker.transactions.commit([following])
    assert (await seen(workers)).messages == 2 * COUNT + 1


class Trouble:
    """Something goes wrong with the first call of a kind between two workers."""

    def __init__(self, workers: WorkerSet, kind: type[PeerRequest[Any]], what: str, monkeypatch: Any) -> None:
        self._workers, self._kind, self._what = workers, kind, what
        self.tasks: list[asyncio.Task[Any]] = []
        self.has_happened = False
        real = Peers.call

        async def call(peers: Peers, worker: int, request: PeerRequest[Any], *rest: Any, **options: Any) -> Any:
            if not isinstance(request, kind) or self.has_happened:
                return await real(peers, worker, request, *rest, **options)
            self.has_happened = True
            who, when = what.split()
            if when == "before":
                self._hit(who, peers.worker, worker)
                if who == "nobody":
                    raise WorkerUnavailable(worker=worker, problem="was not reached")
            result = await real(peers, worker, request, *rest, **options)
            if when == "twice":
                return await real(peers, worker, request, *rest, **options)
            if when == "after":
                self._hit(who, peers.worker, worker)
                raise WorkerUnavailable(worker=worker, problem="was not heard")
            return result

        monkeypatch.setattr(Peers, "call", call)

    def _hit(self, who: str, caller: int, called: int) -> None:
        if who != "nobody":
            number = caller if who == "caller" else called
            self._workers.kill(number)
            self.tasks.append(asyncio.ensure_future(self._workers.start(number)))


@pytest.mark.parametrize(
    "what",
    [
        "nobody before",
        "nobody after",
        "nobody twice",
        "called before",
        "called after",
        "caller before",
        "caller after",
    ],
)
@pytest.mark.parametrize("kind", [Join, PreparePart, FinishPart])
async def test_all_or_nothing(
    workers: WorkerSet, kind: type[PeerRequest[Any]], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    acks = acks_of(await leased(workers))
    trouble = Trouble(workers, kind, what, monkeypatch)
    committed = await transfer(workers, acks)
    await asyncio.gather(*trouble.tasks)
    assert trouble.has_happened
    assert await seen(workers) == (EVERYTHING if committed else NOTHING)
    if not committed:  # and then it can be done again
        assert await transfer(workers, acks)
        assert await seen(workers) == EVERYTHING


@pytest.mark.parametrize("point", ["append", "appended"])
@pytest.mark.parametrize("killed", range(COUNT))
async def test_a_kill_while_the_decision_is_written(workers: WorkerSet, killed: int, point: Any) -> None:
    acks = acks_of(await leased(workers))
    workers.storage(0).hold(DECISIONS, point).release()  # the producer's record
    deciding = workers.storage(0).hold(DECISIONS, point)
    transferring = asyncio.ensure_future(transfer(workers, acks))
    await deciding.reached()
    workers.kill(killed)
    deciding.release()
    await workers.start(killed)
    committed = await transferring
    assert await seen(workers) == (EVERYTHING if committed else NOTHING)
