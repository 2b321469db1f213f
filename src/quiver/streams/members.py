"""Members of stream groups: join, heartbeat, leave, and the end of sessions.

Every change works on a copy of the membership. It takes effect when it is on disk, or not at all if that fails.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from quiver.groups.service import Groups
from quiver.model.errors import QuiverError
from quiver.model.names import TopicPartition, check_name
from quiver.model.topic import Topic
from quiver.streams.events import Event, MembershipChanged
from quiver.streams.journal.journal import StreamJournal
from quiver.streams.member import Member, Subscription
from quiver.streams.member_connections import MemberConnections
from quiver.streams.member_view import ChangeSignal, MemberView
from quiver.streams.membership import JoinOptions, JoinRequest, Membership, topic_ids
from quiver.structures.deadlines import Deadlines
from quiver.system.clock import Clock
from quiver.system.pace import paced
from quiver.system.randomness import Randomness
from quiver.telemetry.failures import Failures
from quiver.topics.catalogue import TopicCatalogue

logger = logging.getLogger(__name__)


class Members:
    def __init__(
        self,
        groups: Groups,
        journal: StreamJournal,
        catalogue: TopicCatalogue,
        *,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._groups = groups
        self._journal = journal
        self._catalogue = catalogue
        self._clock = clock
        self._randomness = randomness
        self.connections = MemberConnections()
        self._signals: dict[int, ChangeSignal] = {}
        self._pending: dict[int, Membership] = {}
        """Memberships that are being written, by group id. Heartbeats and broken connections change these too."""
        self._deadlines: Deadlines[int] = Deadlines()
        self._is_behind = True
        """Topics may have changed without the groups: before the start, or when that could not be written."""
        self._first_version = 0
        journal.subscribe(self._applied)

    def open(self, epoch: int) -> None:
        """Called when the journal was read. Sessions did not run while the broker was down."""
        self._first_version = epoch << 32
        for group_id, group in self._journal.groups():
            group.membership.restarted(self._now_ms())
            self._note_deadline(group_id)

    def close(self) -> None:
        """Wakes everybody who waits for a change."""
        for signal in self._signals.values():
            signal.announce()

    async def join(
        self,
        name: str,
        subscription: Subscription,
        options: JoinOptions = JoinOptions(),  # noqa: B008 - a value
    ) -> MemberView:
        """Makes the caller a member; the first one creates the group. Its partitions may come with a later
        heartbeat."""
        check_name(name, "group")
        async with self._groups.locks.hold(name):
            group = self._groups.check_stream_group(name)
            draft = Membership() if group is None else self._draft(name)
            member = draft.join(
                JoinRequest(subscription, options),
                self._catalogue.sizes(),
                self._now_ms(),
                new_id=lambda: f"{subscription.client_id}-{self._randomness.token(8).hex()}",
                joined_at_ms=self._clock.now_ms(),
            )
            self._journal.check_open()
            group = group or await self._groups.stream_group(name)
            await self._install(group.id, draft)
            return self.view(name, member.id)

    async def heartbeat(
        self,
        name: str,
        member_id: str,
        *,
        generation: int | None = None,
        revoked: frozenset[TopicPartition] = frozenset(),
        is_busy: bool = False,
    ) -> MemberView:
        """A heartbeat, with the partitions that the member has given up."""
        self._journal.check_open()
        group_id = self._groups.group(name).id
        self._heard(name, member_id, generation, is_busy=is_busy)
        if revoked:
            async with self._groups.locks.hold(name):
                draft = self._draft(name)
                if draft.revoked(member_id, set(revoked), self._now_ms()):
                    await self._install(group_id, draft)
        return self.view(name, member_id)

    async def next_view(self, name: str, view: MemberView, wait_ms: int) -> MemberView:
        """The first view of a member after the one it has seen, or the same one if nothing changes in time. Counts as
        a heartbeat."""
        signal = self._signal(self._groups.group(name).id)
        membership = self._journal.group(name).membership
        if signal.version == view.version and wait_ms > 0:
            session_ms = membership.member(view.member_id).subscription.session_ms
            await signal.wait(min(wait_ms, session_ms // 3) / 1000)
            self._heard(name, view.member_id)
        return self.view(name, view.member_id)

    def _heard(self, name: str, member_id: str, generation: int | None = None, *, is_busy: bool = False) -> None:
        current, *pending = self.memberships(name)
        current.heartbeat(member_id, generation, self._now_ms(), is_busy=is_busy)
        for membership in pending:
            if member_id in membership.members:
                membership.heartbeat(member_id, None, self._now_ms(), is_busy=is_busy)

    async def leave(self, name: str, member_id: str) -> None:
        async with self._groups.locks.hold(name):
            draft = self._draft(name)
            draft.leave(member_id, self._catalogue.sizes(), self._now_ms())
            await self._install(self._groups.group(name).id, draft)

    def connection_lost(self, name: str, member_id: str) -> None:
        """The connection of a member broke: it has a few seconds to come back."""
        group = None if self._journal.problem else self._groups.find(name)
        if group is not None:
            for membership in self.memberships(name):
                membership.disconnected(member_id, self._now_ms())
            self._note_deadline(group.id)

    def memberships(self, name: str) -> list[Membership]:
        """The membership in effect, and the one that is being written, if any."""
        pending = self._pending.get(self._groups.group(name).id)
        return [each for each in (self._journal.group(name).membership, pending) if each is not None]

    def view(self, name: str, member_id: str) -> MemberView:
        membership = self._journal.group(name).membership
        member = membership.member(member_id)
        deadline = member.revocation_deadline_ms
        return MemberView(
            member_id,
            membership.generation,
            self._signal(self._groups.group(name).id).version,
            member.state,
            frozenset(member.assigned),
            frozenset(member.revoking),
            None if deadline is None else max(0, deadline - self._now_ms()),
        )

    def topic_ids(self, subscription: Subscription) -> frozenset[int]:
        """The topics that a subscription matches now."""
        return topic_ids(subscription, self._catalogue.sizes())

    def changed(self, name: str) -> asyncio.Event:
        """Set at the next change of the group."""
        return self._signal(self._groups.group(name).id).changed

    def silence_ms(self, member: Member) -> int:
        """The time since the member's last heartbeat."""
        return max(0, self._now_ms() - member.heartbeat_at_ms)

    def forget(self, group_id: int) -> None:
        """The group was deleted, and had no members."""
        self._signals.pop(group_id, None)
        self._deadlines.forget(group_id)

    async def topic_changed(self, topic: Topic) -> None:
        """Tells the groups that subscribe to a topic that it is new, has more partitions or was removed."""
        try:
            await self._follow_topics(lambda membership: membership.asks_for(topic.name))
        except (QuiverError, OSError) as error:
            logger.warning("groups follow the change of topic %s later: %s", topic.name, error)
            self._is_behind = True

    async def catch_up(self) -> None:
        """Tells groups of topics that changed without them."""
        if self._is_behind:
            self._is_behind = False
            try:
                await self._follow_topics(lambda membership: not membership.covers(self._catalogue.sizes()))
            except BaseException:
                self._is_behind = True
                raise

    async def _follow_topics(self, is_concerned: Callable[[Membership], bool]) -> None:
        async for group_id, group in paced(self._journal.groups()):
            name = self._groups.name_of(group_id)
            if name is None or not is_concerned(group.membership):
                continue
            if self._groups.locks.is_held(name):
                self._is_behind = True  # it may be held until the outcome of a transaction is known
                continue
            async with self._groups.locks.hold(name):
                if self._groups.name_of(group_id) is None:
                    continue
                draft = self._draft(name)
                if draft.topics_changed(self._catalogue.sizes(), self._now_ms()):
                    await self._install(group_id, draft)

    async def expire(self, failures: Failures) -> None:
        """Removes members that were silent for too long or did not give up partitions in time.

        Groups that somebody holds are left to the next round: the others do not wait for them."""
        now_ms, looked_at = self._now_ms(), []
        while (group_id := self._deadlines.take(now_ms)) is not None:
            looked_at.append(group_id)
            name = self._groups.name_of(group_id)
            if name is not None and not self._groups.locks.is_held(name):
                with failures.of(f"the end of sessions in group {name}"):
                    await self._expire_in(name, now_ms)
        for group_id in looked_at:
            self._note_deadline(group_id)

    async def _expire_in(self, name: str, now_ms: int) -> None:
        deadline = self._journal.group(name).membership.next_deadline_ms()
        if deadline is None or deadline >= now_ms:
            return
        async with self._groups.locks.hold(name):
            draft = self._draft(name)
            if gone := draft.expire(self._catalogue.sizes(), self._now_ms()):
                logger.info("group %s: removed %s", name, ", ".join(gone))
                await self._install(self._groups.group(name).id, draft)

    def _draft(self, name: str) -> Membership:
        membership = self._journal.group(name).membership
        return msgspec.json.decode(msgspec.json.encode(membership), type=Membership)

    async def _install(self, group_id: int, draft: Membership) -> None:
        self._pending[group_id] = draft
        try:
            await self._journal.append(MembershipChanged(group_id, draft, self._clock.now_ms()))
        finally:
            del self._pending[group_id]
        self._signal(group_id).announce()

    def _signal(self, group_id: int) -> ChangeSignal:
        signal = self._signals.get(group_id)
        if signal is None:
            signal = self._signals[group_id] = ChangeSignal(self._first_version)
        return signal

    def _applied(self, event: Event) -> None:
        if isinstance(event, MembershipChanged):
            draft = self._pending.get(event.group_id)
            if draft is not None:  # the event was encoded before it was written
                event.membership.continue_sessions(draft)
            self._note_deadline(event.group_id)

    def _note_deadline(self, group_id: int) -> None:
        group = self._journal.find(group_id)
        if group is not None:
            self._deadlines.note(group_id, group.membership.next_deadline_ms())

    def _now_ms(self) -> int:
        """On the steady clock, so that a corrected wall clock removes nobody."""
        return int(self._clock.monotonic() * 1000)
