"""What other workers ask of the coordination in worker 0, without a view: views are made of it. And whether a worker
has seen a change."""

from quiver.coordination.port import ChangeBatch, Expected, KeyRange, KeyValue, Operation, Outcome
from quiver.links.request import PeerRequest


class Get(PeerRequest[KeyValue | None], frozen=True):
    capability, method, needs_view = "coordination", "get", False
    key: str


class Range(PeerRequest[KeyRange], frozen=True):
    capability, method, needs_view = "coordination", "range", False
    prefix: str


class Commit(PeerRequest[Outcome], frozen=True):
    capability, method, needs_view = "coordination", "commit", False
    expected: list[Expected]
    operations: list[Operation]


class NextBatch(PeerRequest[ChangeBatch], frozen=True):
    """One step of a watch: waits until something has changed after the revision."""

    capability, method, needs_view, only_waits = "coordination", "next_batch", False, True
    prefix: str
    after_revision: int
    is_first: bool


class GrantLease(PeerRequest[int], frozen=True):
    capability, method, needs_view = "coordination", "grant_lease", False
    ttl_ms: int


class KeepAlive(PeerRequest[bool], frozen=True):
    capability, method, needs_view = "coordination", "keep_alive", False
    lease_id: int


class Revoke(PeerRequest[None], frozen=True):
    capability, method, needs_view = "coordination", "revoke", False
    lease_id: int


class HasSeen(PeerRequest[None], frozen=True):
    """Of every worker: returns when its view is as new as the caller's, as every call is begun then."""

    capability, method = "coordination", "has_seen"
