"""What this worker does with the queues of its partitions for others."""

from quiver.broker.broker import Broker
from quiver.links.request import Handlers, Reply
from quiver.protocol.link_messages import link_failure
from quiver.queues.leases import HeldKey, HeldLease, LeasePage
from quiver.queues.service import ReceiptOutcome
from quiver.queues.state.port import Settlement
from quiver.queues.stats import Priorities, Reliability
from quiver.routing.queues.leased_runs import leased_reply
from quiver.routing.queues.requests import (
    BeginPartitions,
    BeginUse,
    DepthsOf,
    GroupsUsing,
    LeasedRun,
    LeaseOf,
    LeasesOf,
    LeasesOfKey,
    OwnedDepths,
    PauseUse,
    PrioritiesOf,
    ReceiveOwned,
    RefusedPart,
    ReliabilityOf,
    ReopenKey,
    ResumeUse,
    SettledOwned,
    SettledReceipt,
    SettleOwned,
    SettleReceipts,
    UsingOf,
)


class QueueHandlers:
    """Receive and settle."""

    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._queues, self._catalogue = broker.queues, broker.metadata.catalogue
        handlers.add(ReopenKey, self._reopen)
        handlers.add(ReceiveOwned, self._receive)
        handlers.add(SettleOwned, self._settle)
        handlers.add(SettleReceipts, self._settle_receipts)
        handlers.add(BeginUse, self._begin_use)
        handlers.add(BeginPartitions, self._begin_partitions)
        handlers.add(PauseUse, self._pause)
        handlers.add(ResumeUse, self._resume)

    async def _receive(self, request: ReceiveOwned, payload: memoryview) -> Reply[list[LeasedRun]]:
        return leased_reply(await self._queues.receive(request.request))

    async def _settle(self, request: SettleOwned, payload: memoryview) -> Reply[list[SettledOwned]]:
        return Reply([_settled(settlement) for settlement in await self._queues.settle(request.parts)])

    async def _settle_receipts(self, request: SettleReceipts, payload: memoryview) -> Reply[list[SettledReceipt]]:
        outcomes = await self._queues.settle_receipts(
            request.action,
            request.receipts,
            delay_ms=request.delay_ms,
            is_counted=request.is_counted,
            reason=request.reason,
        )
        return Reply([_settled_receipt(outcome) for outcome in outcomes])

    async def _begin_use(self, request: BeginUse, payload: memoryview) -> Reply[None]:
        await self._queues.begin_use(request.topic_id, request.group, request.start)
        return Reply(None)

    async def _begin_partitions(self, request: BeginPartitions, payload: memoryview) -> Reply[None]:
        await self._queues.begin_partitions(request.topic_id, request.group, request.start)
        return Reply(None)

    async def _pause(self, request: PauseUse, payload: memoryview) -> Reply[None]:
        await self._queues.pause(request.topic, request.group, request.reason)
        return Reply(None)

    async def _resume(self, request: ResumeUse, payload: memoryview) -> Reply[None]:
        await self._queues.resume(request.topic, request.group)
        return Reply(None)

    async def _reopen(self, request: ReopenKey, payload: memoryview) -> Reply[int]:
        topic = self._catalogue.topic_by_id(request.topic_id)
        reopened = self._queues.reopen(topic, request.partition, request.group, request.key, request.runs)
        return Reply(await reopened)


class QueueLookHandlers:
    """Depths, leases, statistics."""

    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._broker = broker
        handlers.add(GroupsUsing, self._groups_using)
        handlers.add(DepthsOf, self._depths)
        handlers.add(LeasesOf, self._leases)
        handlers.add(LeasesOfKey, self._leases_of_key)
        handlers.add(LeaseOf, self._lease)
        handlers.add(ReliabilityOf, self._reliability)
        handlers.add(UsingOf, self._using)
        handlers.add(PrioritiesOf, self._priorities)

    async def _groups_using(self, request: GroupsUsing, payload: memoryview) -> Reply[list[str]]:
        return Reply(await self._broker.queue_depths.groups_using(request.topic, request.only))

    async def _depths(self, request: DepthsOf, payload: memoryview) -> Reply[OwnedDepths]:
        return Reply(OwnedDepths(*await self._broker.queue_depths.owned(request.topic, request.groups)))

    async def _leases(self, request: LeasesOf, payload: memoryview) -> Reply[LeasePage]:
        leases = self._broker.queue_leases
        return Reply(await leases.owned(request.topic, request.group, limit=request.limit, after=request.after))

    async def _leases_of_key(self, request: LeasesOfKey, payload: memoryview) -> Reply[list[HeldKey]]:
        leases = self._broker.queue_leases
        held = await leases.of_key(request.topic_id, request.group_id, request.key, with_runs=request.with_runs)
        return Reply(held)

    async def _lease(self, request: LeaseOf, payload: memoryview) -> Reply[HeldLease | None]:
        leases = self._broker.queue_leases
        return Reply(await leases.of_lease(request.topic_id, request.partition, request.group_id, request.lease_id))

    async def _reliability(self, request: ReliabilityOf, payload: memoryview) -> Reply[Reliability]:
        return Reply(await self._broker.queue_stats.reliability())

    async def _using(self, request: UsingOf, payload: memoryview) -> Reply[dict[str, list[int]]]:
        return Reply(await self._broker.queue_stats.using(request.only))

    async def _priorities(self, request: PrioritiesOf, payload: memoryview) -> Reply[Priorities]:
        return Reply(await self._broker.queue_stats.priorities(request.only, request.using))


def _settled(settlement: Settlement) -> SettledOwned:
    refused = [
        RefusedPart(start, end, link_failure(error), is_settled)
        for start, end, error, is_settled in settlement.refused
    ]
    return SettledOwned(refused, settlement.until_ms)


def _settled_receipt(outcome: ReceiptOutcome) -> SettledReceipt:
    failed = None if outcome.error is None else link_failure(outcome.error)
    return SettledReceipt(failed, *outcome[5:])
