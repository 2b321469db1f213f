"""A group that is in use: what is in memory only, and what its members are told."""

import asyncio
import contextlib
from typing import NamedTuple

from quiver.groups.member import MemberState
from quiver.groups.state import Membership
from quiver.model.topic_partition import TopicPartition


class MemberView(NamedTuple):
    """What a member is told. `version` changes with every change of the group."""

    member_id: str
    generation: int
    version: int
    state: MemberState
    assigned: frozenset[TopicPartition]
    revoke: frozenset[TopicPartition]
    revocation_ms: int | None
    """Milliseconds left to let go of `revoke`."""


class LiveGroup:
    """What a group has in memory only."""

    __slots__ = ("changed", "coming", "lock", "version")

    def __init__(self, version: int) -> None:
        self.lock = asyncio.Lock()
        self.version = version
        self.changed = asyncio.Event()
        self.coming: Membership | None = None
        """The membership that is being written."""

    def announce(self) -> None:
        self.version += 1
        self.changed.set()
        self.changed = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Until the group changes, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.changed.wait()
