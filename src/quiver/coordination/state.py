"""Keys, their revisions, and leases. Pure: events in, state and outcomes out."""

from collections.abc import Iterator, Sequence

import msgspec

from quiver.coordination.events import Event, LeaseEnded, LeaseGranted, Proposed
from quiver.coordination.history import ChangeHistory
from quiver.coordination.port import (
    ABSENT,
    Change,
    ChangeBatch,
    Delete,
    Expected,
    KeyRange,
    KeyValue,
    Operation,
    Outcome,
    Put,
)

_BATCH_REVISIONS = 1_000


class Entry(msgspec.Struct, frozen=True, array_like=True):
    value: bytes
    revision: int
    lease_id: int = 0


class Lease(msgspec.Struct, array_like=True):
    ttl_ms: int
    keys: set[str] = msgspec.field(default_factory=set)


class _Saved(msgspec.Struct, array_like=True):
    """The first record of a snapshot; each of the others is a key with its entry."""

    revision: int
    last_lease_id: int
    leases: dict[int, int]


class CoordinationState:
    def __init__(self) -> None:
        self.revision = 0
        self.entries: dict[str, Entry] = {}
        self.leases: dict[int, Lease] = {}
        self.history = ChangeHistory()
        self._last_lease_id = 0

    def refusal(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome | None:
        """The outcome of a transaction that would fail now; None if it would succeed."""
        for each in expected:
            if self._revision_of(each.key) != each.revision:
                return Outcome(False, self.revision)
        for operation in operations:
            if isinstance(operation, Put) and operation.lease_id and operation.lease_id not in self.leases:
                return Outcome(False, self.revision, operation.lease_id)
        return None

    def apply(self, event: Event) -> Outcome:
        """The outcome; that of LeaseGranted has the id of the lease as its revision."""
        match event:
            case Proposed(_, expected, operations):
                refused = self.refusal(expected, operations)
                if refused is None:
                    self._change(operations)
                return refused or Outcome(True, self.revision)
            case LeaseGranted(_, ttl_ms):
                self._last_lease_id += 1
                self.leases[self._last_lease_id] = Lease(ttl_ms)
                return Outcome(True, self._last_lease_id)
            case LeaseEnded(_, lease_id):
                lease = self.leases.pop(lease_id, None)
                self._change([] if lease is None else [Delete(key) for key in sorted(lease.keys)])
                return Outcome(True, self.revision)

    def _change(self, operations: Sequence[Operation]) -> None:
        revision = self.revision + 1
        changes = [change for operation in operations if (change := self._carry_out(operation, revision))]
        if changes:
            self.revision = revision
            self.history.add(changes)

    def _carry_out(self, operation: Operation, revision: int) -> Change | None:
        before = self.entries.pop(operation.key, None)
        if before is not None and before.lease_id in self.leases:
            self.leases[before.lease_id].keys.discard(operation.key)
        if isinstance(operation, Delete):
            return None if before is None else Change(operation.key, None, revision)
        self._put(operation.key, Entry(operation.value, revision, operation.lease_id))
        return Change(operation.key, operation.value, revision)

    def _put(self, key: str, entry: Entry) -> None:
        self.entries[key] = entry
        if entry.lease_id:
            self.leases[entry.lease_id].keys.add(key)

    def _revision_of(self, key: str) -> int:
        entry = self.entries.get(key)
        return ABSENT if entry is None else entry.revision

    # reading

    def get(self, key: str) -> KeyValue | None:
        entry = self.entries.get(key)
        return None if entry is None else KeyValue(key, entry.value, entry.revision)

    def range(self, prefix: str) -> KeyRange:
        found = sorted(item for item in self.entries.items() if item[0].startswith(prefix))
        return KeyRange(self.revision, [KeyValue(key, entry.value, entry.revision) for key, entry in found])

    def changes(self, prefix: str, after_revision: int) -> ChangeBatch | None:
        """The next batch of a watch; None while there is nothing new."""
        if after_revision == self.revision and after_revision:
            return None
        if 0 < after_revision < self.revision and self.history.covers(after_revision):
            return ChangeBatch(*self.history.after(after_revision, prefix, limit=_BATCH_REVISIONS))
        revision, items = self.range(prefix)
        return ChangeBatch(revision, [Change(*item) for item in items], is_complete=True)

    # snapshots

    def snapshot(self) -> Iterator[bytes]:
        """Nothing may change until the last chunk is taken."""
        leases = {lease_id: lease.ttl_ms for lease_id, lease in self.leases.items()}
        yield _framed(msgspec.msgpack.encode(_Saved(self.revision, self._last_lease_id, leases)))
        for item in self.entries.items():
            yield _framed(msgspec.msgpack.encode(item))

    def restore(self, data: bytes) -> None:
        chunks = _chunks(data)
        saved = msgspec.msgpack.decode(next(chunks), type=_Saved)
        self.revision, self._last_lease_id = saved.revision, saved.last_lease_id
        self.leases = {lease_id: Lease(ttl_ms) for lease_id, ttl_ms in saved.leases.items()}
        self.entries, self.history = {}, ChangeHistory(saved.revision)
        decoder = msgspec.msgpack.Decoder(tuple[str, Entry])
        for key, entry in map(decoder.decode, chunks):
            self._put(key, entry)


def _framed(chunk: bytes) -> bytes:
    return len(chunk).to_bytes(4, "little") + chunk


def _chunks(data: bytes) -> Iterator[memoryview]:
    view, place = memoryview(data), 0
    while place < len(view):
        end = place + 4 + int.from_bytes(view[place : place + 4], "little")
        if end > len(view):
            raise ValueError("a snapshot of coordination ends in the middle of an entry")
        yield view[place + 4 : end]
        place = end
