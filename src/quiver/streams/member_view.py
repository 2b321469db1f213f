"""What a member of a stream group is told, and when."""

import asyncio
import contextlib
from typing import NamedTuple

from quiver.model.names import TopicPartition
from quiver.streams.member import MemberState


class MemberView(NamedTuple):
    """What a member is told. `version` changes with every change of the group."""

    member_id: str
    generation: int
    version: int
    state: MemberState
    assigned: frozenset[TopicPartition]
    revoke: frozenset[TopicPartition]
    revocation_ms: int | None
    """Milliseconds left to give up `revoke`."""


class ChangeSignal:
    """Wakes everybody who waits for the next change of a group's membership. In memory only."""

    __slots__ = ("changed", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.changed = asyncio.Event()

    def announce(self) -> None:
        self.version += 1
        self.changed.set()
        self.changed = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Waits until the group changes or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.changed.wait()
