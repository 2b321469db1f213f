"""Groups on their journal: every change is on disk before anybody hears of it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import msgspec

from quiver.groups.assignors import AssignorName
from quiver.groups.events import (
    Event,
    GroupCreated,
    GroupDeleted,
    MembershipChanged,
    OffsetsCommitted,
    SettingsChanged,
)
from quiver.groups.group_offsets import GroupOffsets
from quiver.groups.live_group import LiveGroup, MemberView
from quiver.groups.member import Member, Subscription
from quiver.groups.member_connections import MemberConnections
from quiver.groups.state import Membership, Protocol, Topics, topic_ids
from quiver.groups.table import Group, GroupTable
from quiver.model.errors import (
    CorruptData,
    GroupKindMismatch,
    GroupNotEmpty,
    GroupNotFound,
    GroupOrderingMismatch,
    ShuttingDown,
)
from quiver.model.names import check_name
from quiver.model.queue import Ordering
from quiver.model.topic import Topic
from quiver.model.topic_partition import TopicPartition
from quiver.storage.journal import Journal
from quiver.storage.port import Storage
from quiver.structures.deadlines import Deadlines
from quiver.system.clock import Clock
from quiver.system.pace import paced
from quiver.system.randomness import Randomness
from quiver.telemetry.failures import Failures
from quiver.telemetry.supervised_task import SupervisedTask

logger = logging.getLogger(__name__)

LOG_ID = "internal/groups"
_SNAPSHOT_AFTER_SECONDS = 300.0
_TICK_SECONDS = 0.25
_OFFSET_EXPIRY_EVERY_SECONDS = 60.0
_EVENT = msgspec.json.Decoder(Event)


class GroupService(GroupOffsets):
    def __init__(self, *, clock: Clock, randomness: Randomness, topics: Callable[[], Topics]) -> None:
        super().__init__(clock)
        self._randomness = randomness
        self._topics = topics
        self._live: dict[str, LiveGroup] = {}
        self.connections = MemberConnections()
        self._deadlines: Deadlines[str] = Deadlines()
        self._journal: Journal | None = None
        self.task = SupervisedTask("groups", self._run)
        self._closing = False
        self.problem: CorruptData | None = None
        """Why nothing is known of groups: their journal is damaged. Whatever is asked is answered with it."""
        self._first_version = 0
        self._last_id = 0
        self._offsets_checked_at = clock.monotonic()

    async def open(self, storage: Storage, epoch: int) -> None:
        self._first_version = epoch << 32
        try:
            self._journal = await Journal.open(
                storage, LOG_ID, epoch=epoch, clock=self._clock, restore=self._table.restore, apply=self._apply
            )
        except CorruptData as error:
            logger.error("there are no groups until this is repaired: %s", error)
            self._table, self.problem = GroupTable(), error
            return
        for name, group in self._table.groups.items():
            group.membership.restarted(self._now_ms())
            self._note_deadline(name)
        self.task.start()

    async def close(self) -> None:
        """Whoever waits hears of it at once; whatever is asked from now on is ShuttingDown."""
        self._closing = True
        await self.task.stop()
        for live in self._live.values():
            live.announce()
        if self._journal is not None:
            if self._journal.snapshot_due(0):
                await self._journal.snapshot(self._table.encode)
            await self._journal.close()

    # members

    async def join(
        self,
        name: str,
        subscription: Subscription,
        *,
        member_id: str | None = None,
        protocol: Protocol = "cooperative",
        assignor: AssignorName | None = None,
    ) -> MemberView:
        """Makes the caller a member, and the group if it is the first. What it gets may come by heartbeat later."""
        check_name(name, "group")
        async with self._alone(name):
            is_new = name not in self._table.groups
            if not is_new and self.group(name).kind != "stream":
                raise GroupKindMismatch(group=name, kind=self.group(name).kind)
            draft = Membership() if is_new else self._draft(name)
            member = draft.join(
                subscription,
                self._topics(),
                self._now_ms(),
                new_id=lambda: f"{subscription.client_id}-{self._randomness.token(8).hex()}",
                joined_at_ms=self._clock.now_ms(),
                member_id=member_id,
                protocol=protocol,
                assignor=assignor,
            )
            if is_new:
                await self._append(GroupCreated(name, self._clock.now_ms(), self._new_id()))
            await self._install(name, draft)
            return self.view(name, member.id)

    async def heartbeat(
        self,
        name: str,
        member_id: str,
        *,
        generation: int | None = None,
        revoked: frozenset[TopicPartition] = frozenset(),
        seen_version: int | None = None,
        wait_ms: int = 0,
        is_busy: bool = False,
    ) -> MemberView:
        """A sign of life, with the partitions the member has let go of.

        With `seen_version` the answer waits, up to `wait_ms`, until the group is no longer as the member saw it last.
        """
        self._check_open()
        group, live = self.group(name), self._live_of(name)
        group.membership.heartbeat(member_id, generation, self._now_ms(), is_busy=is_busy)
        if revoked:
            async with self._alone(name):
                draft = self._draft(name)
                if draft.revoked(member_id, set(revoked), self._now_ms()):
                    await self._install(name, draft)
        if seen_version == live.version and wait_ms > 0:
            session_ms = group.membership.member(member_id).subscription.session_ms
            await live.wait(min(wait_ms, session_ms // 3) / 1000)
            self.group(name).membership.heartbeat(member_id, None, self._now_ms())
        return self.view(name, member_id)

    async def leave(self, name: str, member_id: str) -> None:
        async with self._alone(name):
            draft = self._draft(name)
            draft.leave(member_id, self._topics(), self._now_ms())
            await self._install(name, draft)

    def connection_lost(self, name: str, member_id: str) -> None:
        """The connection of a member broke: it has a moment to come back."""
        group, live = self._table.groups.get(name), self._live.get(name)
        if group is not None and live is not None:
            for membership in filter(None, (group.membership, live.coming)):
                membership.disconnected(member_id, self._now_ms())
            self._note_deadline(name)

    def view(self, name: str, member_id: str) -> MemberView:
        membership = self.group(name).membership
        member = membership.member(member_id)
        deadline = member.revocation_deadline_ms
        return MemberView(
            member_id,
            membership.generation,
            self._live_of(name).version,
            member.state,
            frozenset(member.assigned),
            frozenset(member.revoking),
            None if deadline is None else max(0, deadline - self._now_ms()),
        )

    def topic_ids(self, subscription: Subscription) -> frozenset[int]:
        """The topics that a subscription means now."""
        return topic_ids(subscription, self._topics())

    def changed(self, name: str) -> asyncio.Event:
        """Set when the group changes next."""
        return self._live_of(name).changed

    def silence_ms(self, member: Member) -> int:
        """How long ago the member's last sign of life was."""
        return max(0, self._now_ms() - member.heartbeat_at_ms)

    # for transactions

    @contextlib.asynccontextmanager
    async def holding(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Nobody joins these groups, leaves them or gets partitions of them meanwhile."""
        async with contextlib.AsyncExitStack() as stack:
            for name in sorted(set(names)):
                await stack.enter_async_context(self._alone(name))
            yield

    async def ensure_stream_group(self, name: str) -> None:
        """Makes a group without members, for whoever holds its name; GroupKindMismatch if it is a queue group."""
        if name not in self._table.groups:
            check_name(name, "group")
            await self._append(GroupCreated(name, self._clock.now_ms(), self._new_id()))
        if self.group(name).kind != "stream":
            raise GroupKindMismatch(group=name, kind=self.group(name).kind)

    # groups

    def check_readable(self) -> None:
        """Raises `problem`, if there is one."""
        if self.problem is not None:
            raise self.problem

    def group(self, name: str) -> Group:
        self.check_readable()
        group = self._table.groups.get(name)
        if group is None:
            raise GroupNotFound(group=name)
        return group

    def groups(self) -> dict[str, Group]:
        self.check_readable()
        return self._table.groups

    def name_of(self, group_id: int) -> str | None:
        """None when there is no such group (any more)."""
        self.check_readable()
        return self._table.names.get(group_id)

    async def queue_group(self, name: str, ordering: Ordering | None) -> Group:
        """The queue group of a name, made at its first use.

        GroupKindMismatch or GroupOrderingMismatch if it is another one. Without an ordering any is right, and a new
        group has none.
        """
        group = self._table.groups.get(name)
        if group is None:
            check_name(name, "group")
            async with self._alone(name):
                if name not in self._table.groups:
                    now_ms, id = self._clock.now_ms(), self._new_id()
                    await self._append(GroupCreated(name, now_ms, id, "queue", ordering or "none"))
                group = self.group(name)
        if group.kind != "queue":
            raise GroupKindMismatch(group=name, kind=group.kind)
        if ordering is not None and ordering != group.ordering:
            raise GroupOrderingMismatch(group=name, ordering=group.ordering)
        return group

    async def change_settings(self, name: str, settings: Mapping[str, Any]) -> None:
        """Changes of one group are made one after another, each to what the one before it left."""
        async with self._alone(name):
            changed = self.group(name).settings.changed(settings)
            await self._append(SettingsChanged(name, changed))

    async def delete(self, name: str) -> None:
        async with self._alone(name):
            group = self.group(name)
            if group.membership.members:
                raise GroupNotEmpty(group=name, members=len(group.membership.members))
            await self._append(GroupDeleted(name))

    async def topic_changed(self, topic: Topic) -> None:
        """A new topic, more partitions of one or its end reach the groups that asked for it."""
        async for name, group in paced(list(self._table.groups.items())):
            if not group.membership.asks_for(topic.name):
                continue
            async with self._alone(name):
                draft = self._draft(name) if name in self._table.groups else Membership()
                if draft.topics_changed(self._topics(), self._now_ms()):
                    await self._install(name, draft)

    async def topic_purged(self, topic: Topic) -> None:
        """Offsets go on, so there is nothing to do."""

    # inside

    def _check_open(self) -> None:
        if self._closing:
            raise ShuttingDown()
        self.check_readable()

    def _new_id(self) -> int:
        self._last_id = max(self._last_id, self._table.last_id) + 1
        return self._last_id

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _live_of(self, name: str) -> LiveGroup:
        if (live := self._live.get(name)) is None:
            live = self._live[name] = LiveGroup(self._first_version)
        return live

    @contextlib.asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """One change of a group at a time. A name that is no group, before or after, leaves nothing behind."""
        while True:
            live = self._live_of(name)
            async with live.lock:
                if self._live.get(name) is not live:
                    continue
                try:
                    yield
                finally:
                    if name not in self._table.groups:
                        del self._live[name]
                return

    def _draft(self, name: str) -> Membership:
        """A copy to work on: it takes effect when it is on disk, and not at all when that fails."""
        membership = self.group(name).membership
        return msgspec.json.decode(msgspec.json.encode(membership), type=Membership)

    async def _install(self, name: str, draft: Membership) -> None:
        live = self._live_of(name)
        live.coming = draft
        try:
            await self._append(MembershipChanged(name, draft, self._clock.now_ms()))
        finally:
            live.coming = None
        live.announce()

    def _apply(self, record: bytes) -> None:
        event = _EVENT.decode(record)
        self._table.apply(event)
        if isinstance(event, MembershipChanged):
            self._note_deadline(event.group)
        elif isinstance(event, OffsetsCommitted):
            self.on_committed(event.group, [partition for partition, _ in event.offsets])

    def _note_deadline(self, name: str) -> None:
        if (group := self._table.groups.get(name)) is not None:
            self._deadlines.note(name, group.membership.next_deadline_ms())

    async def _append(self, event: Event) -> None:
        self._check_open()
        assert self._journal is not None, "open comes first"
        await self._journal.append(msgspec.json.encode(event))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            failures = Failures()
            await self._expire_members(failures)
            await self._expire_offsets(failures)
            with failures.of("a snapshot of groups"):
                if self._journal is not None and self._journal.snapshot_due(_SNAPSHOT_AFTER_SECONDS):
                    await self._journal.snapshot(self._table.encode)
            failures.check()

    async def _expire_members(self, failures: Failures) -> None:
        now_ms, looked_at = self._now_ms(), []
        while (name := self._deadlines.take(now_ms)) is not None:
            looked_at.append(name)
            with failures.of(f"the end of sessions in group {name}"):
                await self._expire_in(name, now_ms)
        for name in looked_at:
            self._note_deadline(name)

    async def _expire_in(self, name: str, now_ms: int) -> None:
        group = self._table.groups.get(name)
        deadline = None if group is None else group.membership.next_deadline_ms()
        if deadline is None or deadline >= now_ms:
            return
        async with self._alone(name):
            draft = self._draft(name)
            if gone := draft.expire(self._topics(), self._now_ms()):
                logger.info("group %s: put out %s", name, ", ".join(gone))
                await self._install(name, draft)

    async def _expire_offsets(self, failures: Failures) -> None:
        now = self._clock.monotonic()
        if now - self._offsets_checked_at < _OFFSET_EXPIRY_EVERY_SECONDS:
            return
        self._offsets_checked_at = now
        async for name, group in paced(list(self._table.groups.items())):
            if group.has_expired(self._steady_clock.earlier_ms()):
                with failures.of(f"the end of group {name}"):
                    await self._forget_expired(name)

    async def _forget_expired(self, name: str) -> None:
        async with self._alone(name):
            current = self._table.groups.get(name)
            if current is not None and current.has_expired(self._steady_clock.earlier_ms()):
                logger.info("group %s: unused for longer than its offsets are kept, forgotten", name)
                await self._append(GroupDeleted(name))
