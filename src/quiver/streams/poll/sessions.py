"""What the broker remembers about members that poll over HTTP. In memory only."""

import asyncio
from collections.abc import Iterable

from quiver.groups.service import Groups
from quiver.model.names import TopicPartition
from quiver.streams.member_view import MemberView
from quiver.streams.service import Streams

_FIRST_SWEEP_GROUPS = 64


class PollSession:
    """What a member was told last, and which of its partitions is served next. In memory only."""

    __slots__ = ("_served", "let_go", "lock", "told")

    def __init__(self) -> None:
        self._served: dict[TopicPartition, None] = {}
        self.let_go: set[TopicPartition] = set()
        """Partitions that it had to give up: if it gets them back, its old leases there no longer count."""
        self.told: MemberView | None = None
        self.lock = asyncio.Lock()
        """Held while a poll reads, so that two polls of a member never get the same messages."""

    def in_turn(self, assigned: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions, least recently served first."""
        rank = {partition: place for place, partition in enumerate(self._served, 1)}
        return sorted(assigned, key=lambda partition: (rank.get(partition, 0), partition))

    def served(self, partition: TopicPartition) -> None:
        self._served.pop(partition, None)
        self._served[partition] = None


class PollSessions:
    def __init__(self, groups: Groups, streams: Streams) -> None:
        self._groups = groups
        self._streams = streams
        self._by_group: dict[str, dict[str, PollSession]] = {}
        self._sweep_at = _FIRST_SWEEP_GROUPS

    def of(self, group: str, member_id: str) -> PollSession:
        """The session of a member that is in the group now."""
        sessions = self._by_group.get(group)
        if sessions is None:
            self._sweep()
            sessions = self._by_group[group] = {}
        session = sessions.get(member_id)
        if session is None:
            members = self._streams.group(group).membership.members
            for gone in sessions.keys() - members.keys():
                del sessions[gone]
            session = sessions[member_id] = PollSession()
        return session

    def told(self, group: str, member_id: str) -> MemberView | None:
        session = self._by_group.get(group, {}).get(member_id)
        return None if session is None else session.told

    def tell(self, group: str, view: MemberView) -> None:
        """Called when the response that carries this view is sent."""
        self.of(group, view.member_id).told = view

    def let_go(self, group: str, member_id: str, partitions: Iterable[TopicPartition]) -> None:
        """If the member gets these back later, it begins at the position that the group has then."""
        self.of(group, member_id).let_go.update(partitions)

    def forget(self, group: str, member_id: str) -> None:
        self._by_group.get(group, {}).pop(member_id, None)

    def _sweep(self) -> None:
        if len(self._by_group) >= self._sweep_at:
            groups = self._groups.groups()
            self._by_group = {name: sessions for name, sessions in self._by_group.items() if name in groups}
            self._sweep_at = max(_FIRST_SWEEP_GROUPS, 2 * len(self._by_group))
