"""Calls that their owner carries out in the same way, whether it got them itself or another worker passed them on."""

from collections.abc import Iterable
from typing import Any, Generic

from quiver.broker.broker import Broker
from quiver.links.request import Handlers, PeerRequest, R, Reply


class OwnedRequest(PeerRequest[R], Generic[R], frozen=True):
    """A request that says itself what the broker of its owner does."""

    async def carry_out(self, broker: Broker) -> R:
        raise NotImplementedError


def add_owned(handlers: Handlers, broker: Broker, kinds: Iterable[type[OwnedRequest[Any]]]) -> None:
    """What this worker carries out for others."""

    async def carry_out(request: OwnedRequest[Any], payload: memoryview) -> Reply[Any]:
        return Reply(await request.carry_out(broker))

    for kind in kinds:
        handlers.add(kind, carry_out)
