"""The broker starts while its disk is full: what transactions have left to be done waits, and nothing is given up."""

import asyncio
from typing import Any

import pytest
from tests.unit.transactions.test_transaction_chaos import JOBS, Run

from quiver.model.errors import DiskFull, ProducerFenced, TransactionConflict
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.model.transaction import LeasedAcks, ProducerKey


async def begun(run: Run) -> ProducerKey:
    await run.start()
    await run.set_up()
    key = await run.broker.transactions.init("id")
    await run.broker.transactions.publish(key.producer_id, key.epoch, "a", NewMessage(value=b"1", partition=0))
    return key


async def restart_on_a_full_disk(run: Run) -> None:
    run.storage.is_full = True
    await run.end(is_power_cut=False)
    await run.broker.transactions._applier.flush()


async def test_acks_of_a_decision_are_repeated_until_they_are_written() -> None:
    run = Run(0)
    key = await begun(run)
    [job] = await run.broker.queues.receive(
        ReceiveRequest([run.broker.topic("jobs").id], "workers", consumer="c", max_messages=1)
    )
    lease = job.run
    acks = [LeasedAcks(job.topic.id, 0, lease.group_id, lease.lease_id, [(lease.start, lease.end)])]

    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    run.broker.transactions._applier.carry_out = never  # type: ignore[method-assign]
    committing = asyncio.ensure_future(run.broker.transactions.commit([key], acks=acks))
    while not run.broker.transactions._coordinator.state.unfinished:
        await asyncio.sleep(0)
    run.storage.full_logs = "-delivery"
    await restart_on_a_full_disk(run)
    assert committing.cancelled()
    await run.keep_up()
    run.storage.is_full = False
    await run.end(is_power_cut=False)
    run.clock.ms += 3_600_000
    assert sorted(await run.drain()) == list(range(1, JOBS))
    assert set(await run.committed_values()) == {b"1"}
    await run.broker.stop()


async def test_what_was_open_takes_nothing_more_and_is_aborted_when_there_is_room() -> None:
    run = Run(0)
    key = await begun(run)
    await restart_on_a_full_disk(run)
    transactions = run.broker.transactions
    with pytest.raises(TransactionConflict, match="restarted"):
        await transactions.commit([key])
    run.storage.is_full = False
    transactions._aborts.begin_overdue()
    assert transactions._aborts.timeouts
    await asyncio.gather(*transactions._aborts.timeouts.values())
    with pytest.raises(ProducerFenced):
        await transactions.commit([key])
    answer = await transactions.abort([key])
    assert answer.producers == [ProducerKey(key.producer_id, key.epoch + 1)]
    partition = run.broker._partitions.get(run.broker.topic("a").id, 0)
    assert not partition.tables.transactions.open
    assert not await run.committed_values()
    await run.broker.stop()


async def test_what_is_completed_is_noted_when_there_is_room() -> None:
    run = Run(0)
    key = await begun(run)
    coordinator = run.broker.transactions._coordinator
    await run.broker.transactions.commit([key])
    await run.broker.transactions._applier.flush()
    assert coordinator.state.unfinished
    run.storage.is_full = True
    with pytest.raises(DiskFull):
        await coordinator.maintain()
    run.storage.is_full = False
    await coordinator.maintain()
    assert not coordinator.state.unfinished
    await run.broker.stop()


async def test_the_broker_stops_although_the_journal_takes_nothing_more() -> None:
    run = Run(0)
    key = await begun(run)
    await run.broker.transactions.commit([key])
    await run.broker.transactions._applier.flush()
    assert run.broker.transactions._coordinator._completed
    run.storage.full_logs, run.storage.is_full = "transactions", True
    await run.broker.stop()
    run.storage.is_full = False
    await run.start()
    assert set(await run.committed_values()) == {b"1"}
    await run.broker.stop()
