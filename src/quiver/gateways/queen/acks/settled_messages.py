"""Whether a group is done with a message that nobody holds for it: for acknowledgements that are sent again."""

from typing import TYPE_CHECKING

from quiver.gateways.queen.acks.leased_messages import LeasedMessages
from quiver.gateways.queen.identifiers import LeaseId
from quiver.gateways.queen.stored_messages import find_message
from quiver.model.settlement import ACK, SettleRequest
from quiver.model.topic import Topic

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_NO_LEASE = 0


class SettledMessages:
    def __init__(self, broker: "Facade", leased: LeasedMessages) -> None:
        self._broker = broker
        self._leased = leased

    async def has(
        self, topic: Topic, key: bytes | None, group_id: int, lease: LeaseId | None, transaction: str
    ) -> bool:
        place = await self._find(topic, key, lease, transaction)
        if place is None:
            return False
        partition, offset = place
        looked_up = SettleRequest(
            topic.id, partition, group_id, _NO_LEASE, ACK, [(offset, offset + 1)], is_repeat=True
        )
        [settlement] = await self._broker.queues.settle([looked_up])
        return all(refused.is_settled for refused in settlement.refused)

    async def _find(
        self, topic: Topic, key: bytes | None, lease: LeaseId | None, transaction: str
    ) -> tuple[int, int] | None:
        """Partition and offset: as the lease has them, by the message's id, or in the transactionId itself."""
        for _, partition, lease_id in () if lease is None else lease.places:
            batch = self._leased.get(partition, lease_id, key)
            offset = None if batch is None else batch.offset_of(transaction)
            if offset is not None:
                return partition, offset
        return await find_message(self._broker, topic, key, transaction)
