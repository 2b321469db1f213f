"""Where moves end: partitions of this process, and those of others."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from quiver.model.message import NewMessage
from quiver.outbox.append import append_moved
from quiver.outbox.outbox import Target
from quiver.partition.partition import Partition


class MovedFrame(msgspec.Struct, frozen=True, array_like=True):
    """Messages of a move that are appended as one frame (`append_moved`)."""

    mover: int
    sequence: int
    messages: list[NewMessage]
    schema_id: int = 0


class OtherTargets(Protocol):
    """The partitions that other processes own."""

    def owns(self, target: Target) -> bool:
        """Whether the target is in another process."""

    async def append(self, target: Target, frame: MovedFrame) -> None:
        """Like `MoveTargets.append`."""


class NoOtherTargets:
    """This process owns everything."""

    def owns(self, target: Target) -> bool:
        return False

    async def append(self, target: Target, frame: MovedFrame) -> None:
        raise AssertionError("this process owns every partition")


class MoveTargets:
    def __init__(self, partition: Callable[[int, int], Partition]) -> None:
        """`partition` finds one of this process by topic id and number."""
        self._partition = partition
        self.others: OtherTargets = NoOtherTargets()
        """Set while the broker is built."""

    async def append(self, target: Target, frame: MovedFrame) -> None:
        """Returns when the messages are in the target, as durable as its topic requires; a repeat changes nothing.

        TopicNotFound and PartitionNotFound: the target is gone for good, and no repeat will find it.
        """
        if self.others.owns(target):
            await self.others.append(target, frame)
        else:
            await self.append_here(target, frame)

    async def append_here(self, target: Target, frame: MovedFrame) -> None:
        """The same, for a target that this process owns."""
        await append_moved(
            self._partition(*target),
            mover=frame.mover,
            sequence=frame.sequence,
            messages=frame.messages,
            schema_id=frame.schema_id,
        )
