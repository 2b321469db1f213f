"""What requests about transactions ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.model.errors import InvalidRequest
from quiver.model.limits import TRANSACTIONS_LISTED
from quiver.protocol.message import Message
from quiver.protocol.messages import Done, ProducerIdentity
from quiver.protocol.transaction_messages import (
    AbortTransaction,
    AddAcks,
    AddOffsets,
    BeginTransaction,
    CommitTransaction,
    DescribeTransaction,
    GetTransactionStats,
    InitTransactions,
    ListTransactions,
    Transaction,
    TransactionEnded,
    TransactionList,
    TransactionStats,
)
from quiver.routing.facade import Facade


async def _init(broker: Facade, request: InitTransactions) -> Message:
    key = await broker.transactions.init(request.transactional_id, request.timeout_ms)
    return ProducerIdentity(key.producer_id, key.epoch)


async def _begin(broker: Facade, request: BeginTransaction) -> Message:
    return Transaction(await broker.transactions.begin(request.producer_id, request.epoch))


async def _add_offsets(broker: Facade, request: AddOffsets) -> Message:
    await broker.transactions.add_offsets(request.producer_id, request.epoch, request.groups)
    return Done()


async def _add_acks(broker: Facade, request: AddAcks) -> Message:
    await broker.transactions.add_acks(request.producer_id, request.epoch, request.acks)
    return Done()


async def _commit(broker: Facade, request: CommitTransaction) -> Message:
    response = await broker.transactions.commit(
        request.producers,
        key=request.key,
        description=request.description,
        offsets=request.offsets,
        acks=request.acks,
    )
    return TransactionEnded(*response)


async def _abort(broker: Facade, request: AbortTransaction) -> Message:
    return TransactionEnded(*await broker.transactions.abort(request.producers))


async def _list(broker: Facade, request: ListTransactions) -> Message:
    if request.limit < 1 or request.skip < 0:
        raise InvalidRequest(problem="limit is 1 or more, and skip 0 or more")
    found, total = await broker.transactions.list(skip=request.skip, limit=min(request.limit, TRANSACTIONS_LISTED))
    return TransactionList(list(found), total)


async def _describe(broker: Facade, request: DescribeTransaction) -> Message:
    return Transaction(await broker.transactions.describe(request.transactional_id, request.producer_id))


async def _stats(broker: Facade, request: GetTransactionStats) -> Message:
    return TransactionStats(*await broker.transactions.stats())


TRANSACTION_RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    InitTransactions: _init,
    BeginTransaction: _begin,
    AddOffsets: _add_offsets,
    AddAcks: _add_acks,
    CommitTransaction: _commit,
    AbortTransaction: _abort,
    ListTransactions: _list,
    DescribeTransaction: _describe,
    GetTransactionStats: _stats,
}
