"""Transactions: every call goes to worker 0."""

from collections.abc import Sequence

from quiver.broker.broker import Broker
from quiver.cluster.placement import CONTROLLER
from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.messages.publish import Published
from quiver.model.message import NewMessage
from quiver.model.transaction import (
    DEFAULT_TIMEOUT_MS,
    GroupOffsetCommit,
    LeasedAcks,
    ProducerInfo,
    ProducerKey,
    TransactionInfo,
)
from quiver.routing.transactions.handlers import carry_out
from quiver.routing.transactions.passed_on import PassedOnFrames
from quiver.routing.transactions.requests import (
    Abort,
    AddAcks,
    AddOffsets,
    AddPartition,
    Begin,
    CheckName,
    Commit,
    Describe,
    Heartbeat,
    Init,
    ListProducers,
    ListTransactions,
    PublishOne,
    Stats,
)
from quiver.transactions.producer import Answer
from quiver.transactions.service import TransactionStats


class RoutedTransactions:
    def __init__(self, local: Broker, peers: Peers, passed_on: PassedOnFrames) -> None:
        self._local, self._peers, self._passed_on = local.transactions, peers, passed_on

    async def init(self, transactional_id: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> ProducerKey:
        return await self._ask(Init(transactional_id, timeout_ms))

    async def check_name(self, producer_id: int, transactional_id: str) -> None:
        await self._ask(CheckName(producer_id, transactional_id))

    async def heartbeat(self, producer_id: int, epoch: int) -> None:
        await self._ask(Heartbeat(producer_id, epoch))

    async def begin(self, producer_id: int, epoch: int) -> TransactionInfo:
        return await self._ask(Begin(producer_id, epoch))

    async def add_partition(self, producer_id: int, epoch: int, topic_name: str, partition: int) -> None:
        await self._ask(AddPartition(producer_id, epoch, topic_name, partition))

    async def publish(
        self, producer_id: int, epoch: int, topic: str, message: NewMessage, *, sequence: int | None = None
    ) -> Published:
        return await self._ask(PublishOne(producer_id, epoch, topic, message, sequence))

    async def add_offsets(self, producer_id: int, epoch: int, groups: Sequence[GroupOffsetCommit]) -> None:
        await self._ask(AddOffsets(producer_id, epoch, list(groups)))

    async def add_acks(self, producer_id: int, epoch: int, acks: Sequence[LeasedAcks]) -> None:
        await self._ask(AddAcks(producer_id, epoch, list(acks)))

    async def commit(
        self,
        producers: Sequence[ProducerKey],
        *,
        key: str | None = None,
        description: str | None = None,
        offsets: Sequence[GroupOffsetCommit] = (),
        acks: Sequence[LeasedAcks] = (),
    ) -> Answer:
        """Frames that came through this worker before it are written before."""
        await self._passed_on.complete(producers)
        answer = await self._ask(Commit(list(producers), key, description, list(offsets), list(acks)))
        self._passed_on.forget(producers)
        return answer

    async def abort(self, producers: Sequence[ProducerKey]) -> Answer:
        answer = await self._ask(Abort(list(producers)))
        self._passed_on.forget(producers)
        return answer

    async def list(self, *, skip: int = 0, limit: int = 1000) -> tuple[Sequence[TransactionInfo], int]:
        return await self._ask(ListTransactions(skip, limit))

    async def producers(self, *, skip: int = 0, limit: int = 1000) -> tuple[Sequence[ProducerInfo], int]:
        return await self._ask(ListProducers(skip, limit))

    async def describe(self, transactional_id: str | None, producer_id: int) -> TransactionInfo:
        return await self._ask(Describe(transactional_id, producer_id))

    async def stats(self) -> TransactionStats:
        return await self._ask(Stats())

    async def _ask(self, request: PeerRequest[R]) -> R:
        if self._peers.worker == CONTROLLER:
            result: R = await carry_out(self._local, request)
            return result
        return (await self._peers.call(CONTROLLER, request)).value
