"""The coordination port: keys that several processes share, changed by compare-and-swap and watched in one order.

Every change of keys has a revision, a number that rises; a transaction has one for all its changes. Everything is a
plain value and every call is awaited, so an engine may be in another process. Engines pass the suite in
tests/contract.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.limits import MIB

KEY_LENGTH = 512
VALUE_BYTES = MIB
OPERATIONS = 128
"""In one transaction: what etcd accepts without being configured for more."""
ABSENT = 0
"""The revision of a key that is not there."""


class KeyValue(NamedTuple):
    key: str
    value: bytes
    revision: int
    """Of its last change."""


class KeyRange(NamedTuple):
    revision: int
    """The keys as they were at this revision."""
    items: list[KeyValue]


class Expected(msgspec.Struct, frozen=True, array_like=True):
    """What a transaction depends on: a key whose last change has this revision, or that is ABSENT."""

    key: str
    revision: int


class Put(msgspec.Struct, frozen=True, array_like=True, tag="put"):
    key: str
    value: bytes
    lease_id: int = 0
    """The key vanishes with this lease; 0: it stays."""


class Delete(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """Of a key that is not there: changes nothing."""

    key: str


Operation = Put | Delete


class Outcome(NamedTuple):
    """What became of a transaction."""

    succeeded: bool
    revision: int
    """Of the transaction; if it did not succeed, of a state in which that could be seen."""
    missing_lease_id: int = 0
    """The lease that it puts a key under, and that is not there (any more)."""


class Change(NamedTuple):
    key: str
    value: bytes | None
    """None: the key is gone."""
    revision: int


class ChangeBatch(NamedTuple):
    """Everything that happened to the watched keys between the batch before and a revision."""

    revision: int
    changes: list[Change]
    """In the order of their revisions (of their keys, if complete); all changes of a transaction are in one batch."""
    is_complete: bool = False
    """The changes are all keys that there are: whatever else the watcher knows is gone. Always so in the first batch
    of a watch from 0, and later if the watcher is so far behind that the changes in between are forgotten."""


class Coordination(Protocol):
    async def get(self, key: str) -> KeyValue | None: ...

    async def range(self, prefix: str) -> KeyRange:
        """The keys that begin with a prefix, sorted."""
        ...

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        """Makes all changes, durably, if everything is as expected; otherwise none.

        Raises InvalidRequest if a limit is exceeded or a key is changed twice. After any other error it may or may
        not have happened.
        """
        ...

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        """What happens to the keys that begin with a prefix, after a revision; never ends by itself.

        A batch comes for every rise of the revision, though several may share one, and though it may be about other
        keys. A watcher that does not keep up costs no memory: it gets a complete batch.
        """
        ...

    async def grant_lease(self, ttl_ms: int) -> int:
        """A new lease, which ends if it is not kept alive for so long. Returns its id, which is never used again."""
        ...

    async def keep_alive(self, lease_id: int) -> bool:
        """The lease lasts its whole time again. False: it has ended."""
        ...

    async def revoke(self, lease_id: int) -> None:
        """Ends a lease: its keys are deleted, in one transaction. Of one that has ended: does nothing."""
        ...


def check_transaction(expected: Sequence[Expected], operations: Sequence[Operation]) -> None:
    """Raises InvalidRequest for what no engine accepts."""
    if len(expected) > OPERATIONS or len(operations) > OPERATIONS:
        raise InvalidRequest(problem=f"a transaction has at most {OPERATIONS} comparisons and {OPERATIONS} changes")
    for operation in operations:
        if not 1 <= len(operation.key) <= KEY_LENGTH:
            raise InvalidRequest(problem=f"a key has 1 to {KEY_LENGTH} characters, not {len(operation.key)}")
        if isinstance(operation, Put) and len(operation.value) > VALUE_BYTES:
            raise InvalidRequest(problem=f"the value of {operation.key} has {len(operation.value)} bytes, over 1 MiB")
    if len({operation.key for operation in operations}) < len(operations):
        raise InvalidRequest(problem="a transaction changes each key once")
