"""Offsets of transactions that another worker decides: the group is held until the outcome is known.

While it is held nobody joins, leaves, or is given partitions, and nobody is told where to begin reading. The journal
has what is prepared, so a group is held again after a restart.
"""

import asyncio
from collections.abc import Sequence

from quiver.groups.service import Groups
from quiver.model.errors import GroupNotFound
from quiver.model.names import TopicPartition
from quiver.model.transaction import GroupOffsetCommit
from quiver.streams.events import OffsetsPrepared, OffsetsReleased
from quiver.streams.journal.journal import StreamJournal
from quiver.streams.offsets import Offsets
from quiver.system.key_locks import HeldKeys


class PreparedOffsets:
    def __init__(self, groups: Groups, journal: StreamJournal, offsets: Offsets) -> None:
        self._groups = groups
        self._journal = journal
        self._offsets = offsets
        self._held: dict[tuple[int, str], HeldKeys] = {}
        """By decision and group: the group's lock."""
        self._released: dict[str, asyncio.Event] = {}
        """By group: set when nothing is prepared any more."""

    async def open(self) -> None:
        """After the journal was read, before groups are used: holds those with something prepared."""
        for group_id, group in self._journal.groups():
            name = self._groups.name_of(group_id)
            if name is not None and group.prepared:
                await self._hold(next(iter(group.prepared)), name)

    @property
    def decisions(self) -> set[int]:
        """Those whose outcome is not known here."""
        return {decision for decision, _ in self._held}

    async def prepare(self, decision: int, name: str, commits: Sequence[GroupOffsetCommit]) -> None:
        """What members of one group commit. On return it is on disk, and the group is held until `finish`. A repeat
        changes nothing.

        The caller has checked that the partitions have these offsets.
        """
        if (decision, name) in self._held:
            return
        await self._hold(decision, name)
        try:
            offsets: dict[TopicPartition, tuple[int, str]] = {}
            for commit in commits:
                offsets.update(await self._checked(name, commit))
            group_id = self._groups.group(name).id
            await self._journal.append(OffsetsPrepared(group_id, self._offsets.committed(offsets), decision))
        except BaseException:
            await self._let_go(decision, name)
            raise

    async def _checked(self, name: str, commit: GroupOffsetCommit) -> dict[TopicPartition, tuple[int, str]]:
        offsets = {TopicPartition(p.topic_id, p.partition): (p.offset, p.metadata) for p in commit.offsets}
        if commit.member_id is None:
            await self._groups.stream_group(name)
        self._offsets.check_commit(name, offsets, member_id=commit.member_id, generation=commit.generation)
        return offsets

    async def finish(self, decision: int, *, commit: bool) -> None:
        """The outcome: on return the offsets are committed and on disk, or forgotten. A repeat changes nothing."""
        for held, name in list(self._held):
            if held == decision:
                await self._finish(decision, name, commit)

    async def _finish(self, decision: int, name: str, commit: bool) -> None:
        try:
            group = self._journal.group(name)
            offsets = group.prepared.get(decision)
            if offsets is not None and commit:
                await self._offsets.commit_prepared(name, offsets, decision)
            elif offsets is not None:
                await self._journal.append(OffsetsReleased(self._groups.group(name).id, decision))
        except GroupNotFound:
            pass  # it was deleted, with its offsets
        await self._let_go(decision, name)

    async def settled(self, name: str) -> None:
        """Returns when nothing is prepared for a group: until then its positions may be about to change."""
        while (released := self._released.get(name)) is not None:
            await released.wait()

    async def _hold(self, decision: int, name: str) -> None:
        held = self._groups.locks.hold(name)
        await held.__aenter__()
        self._held[decision, name] = held
        self._released[name] = asyncio.Event()

    async def _let_go(self, decision: int, name: str) -> None:
        held = self._held.pop((decision, name), None)
        if held is not None:
            self._released.pop(name).set()
            await held.__aexit__(None, None, None)
