"""What this worker does for others about transactions: as their coordinator, and as an owner."""

from typing import Any

import msgspec

from quiver.broker.broker import Broker
from quiver.links.request import DONE, Handlers, PeerRequest, Reply
from quiver.routing.transactions.owner_requests import (
    AskOutcomes,
    CheckOffsets,
    FinishPart,
    Join,
    NextSequence,
    OpenInLogs,
    PreparePart,
    ReleasePart,
    SyncLogs,
)
from quiver.routing.transactions.requests import OF_WORKER_0
from quiver.transactions.owners.port import OpenInLog, Outcomes
from quiver.transactions.service import Transactions


async def carry_out(transactions: Transactions, request: PeerRequest[Any]) -> Any:
    """A call of the facade, in worker 0, once that knows what is open."""
    await transactions.ready()
    return await getattr(transactions, request.method)(**msgspec.structs.asdict(request))


class TransactionHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._transactions = broker.transactions
        for kind in OF_WORKER_0:
            handlers.add(kind, self._carry_out)
        handlers.add(Join, self._join)
        handlers.add(AskOutcomes, self._outcomes)
        handlers.add(OpenInLogs, self._opened)
        handlers.add(CheckOffsets, self._check_offsets)
        handlers.add(PreparePart, self._prepare)
        handlers.add(ReleasePart, self._release)
        handlers.add(FinishPart, self._finish)
        handlers.add(SyncLogs, self._sync)
        handlers.add(NextSequence, self._next_sequence)

    async def _carry_out(self, request: PeerRequest[Any], payload: memoryview) -> Reply[Any]:
        return Reply(await carry_out(self._transactions, request))

    # as coordinator

    async def _join(self, request: Join, payload: memoryview) -> Reply[int]:
        await self._transactions.ready()
        return Reply(await self._transactions.answers.join(*_fields(request)))

    async def _outcomes(self, request: AskOutcomes, payload: memoryview) -> Reply[Outcomes]:
        await self._transactions.ready()
        return Reply(await self._transactions.answers.outcomes(request.question))

    # as owner

    async def _opened(self, request: OpenInLogs, payload: memoryview) -> Reply[list[OpenInLog]]:
        return Reply(await self._transactions.owner.opened(request.term))

    async def _check_offsets(self, request: CheckOffsets, payload: memoryview) -> Reply[None]:
        await self._transactions.owner.check_offsets(request.groups)
        return DONE

    async def _prepare(self, request: PreparePart, payload: memoryview) -> Reply[None]:
        await self._transactions.owner.prepare(request.term, request.part)
        return DONE

    async def _release(self, request: ReleasePart, payload: memoryview) -> Reply[None]:
        await self._transactions.owner.release(request.part)
        return DONE

    async def _finish(self, request: FinishPart, payload: memoryview) -> Reply[bool]:
        return Reply(await self._transactions.owner.finish(request.part))

    async def _sync(self, request: SyncLogs, payload: memoryview) -> Reply[bool]:
        return Reply(await self._transactions.owner.sync(request.participants))

    async def _next_sequence(self, request: NextSequence, payload: memoryview) -> Reply[int]:
        return Reply(await self._transactions.publishing.own_logs.next_sequence(*_fields(request)))


def _fields(request: PeerRequest[Any]) -> tuple[Any, ...]:
    return msgspec.structs.astuple(request)
