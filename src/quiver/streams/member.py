"""A member of a group, as the broker sees it."""

from typing import Literal

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.names import TopicPartition
from quiver.structures.name_pattern import check_pattern

MemberState = Literal["none", "pending_revoke", "pending_assign", "complete"]

SESSION_MS = 30_000
HEARTBEAT_MS = 3_000
REVOCATION_MS = 60_000
RECONNECT_MS = 10_000
"""How long a member whose connection broke may stay away: a live one reconnects within a second or two."""
MIN_SESSION_MS, MAX_SESSION_MS = 100, 86_400_000


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """What a member asks for when it joins."""

    client_id: str
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    """A regular expression: every topic whose whole name matches is subscribed to, also topics created later."""
    instance_id: str | None = None
    session_ms: int = SESSION_MS

    def check(self) -> None:
        """Raises InvalidRequest if a member cannot ask for this."""
        if not self.topics and self.pattern is None:
            raise InvalidRequest(problem="a member must subscribe to topics, or to a pattern of topic names")
        if not MIN_SESSION_MS <= self.session_ms <= MAX_SESSION_MS:
            raise InvalidRequest(problem=f"a session of {self.session_ms} ms is not between 100ms and 1d")
        if self.pattern is not None:
            check_pattern(self.pattern)


class Member(msgspec.Struct, kw_only=True):
    """Nobody else may have what is in `owned`; a partition leaves it only when the member has given it up."""

    id: str
    subscription: Subscription
    joined_at_ms: int
    heartbeat_at_ms: int
    disconnected_at_ms: int | None = None
    """When the connection of its last heartbeat broke; None: it did not break, or there was a heartbeat since."""
    owned: set[TopicPartition] = msgspec.field(default_factory=set)
    target: set[TopicPartition] = msgspec.field(default_factory=set)
    revoking: set[TopicPartition] = msgspec.field(default_factory=set)
    """Owned partitions that the member has been asked to give up."""
    revocation_deadline_ms: int | None = None

    @property
    def silent_at_ms(self) -> int:
        """When its session ends without another heartbeat. An instance has the whole session, so that it can
        restart."""
        session_end_ms = self.heartbeat_at_ms + self.subscription.session_ms
        if self.disconnected_at_ms is None or self.subscription.instance_id is not None:
            return session_end_ms
        return min(session_end_ms, self.disconnected_at_ms + RECONNECT_MS)

    def heard(self, now_ms: int) -> None:
        """The member sent a request, which counts as a heartbeat."""
        self.heartbeat_at_ms = max(self.heartbeat_at_ms, now_ms)
        self.disconnected_at_ms = None

    def continue_session(self, other: "Member") -> None:
        """Takes over what was heard of the same member in another copy of the membership."""
        self.heartbeat_at_ms, self.disconnected_at_ms = other.heartbeat_at_ms, other.disconnected_at_ms
        self.revocation_deadline_ms = other.revocation_deadline_ms

    @property
    def assigned(self) -> set[TopicPartition]:
        """What the member may read now."""
        return self.owned - self.revoking

    @property
    def state(self) -> MemberState:
        if self.revoking:
            return "pending_revoke"
        return "pending_assign" if self.target - self.owned else "complete"

    @property
    def is_settled(self) -> bool:
        return not self.revoking and self.owned == self.target

    def release(self, partitions: set[TopicPartition]) -> None:
        self.owned -= partitions
        self.revoking -= partitions
        if not self.revoking:
            self.revocation_deadline_ms = None
