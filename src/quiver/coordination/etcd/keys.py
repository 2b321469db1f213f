"""Names of keys in etcd: all of one cluster have a prefix, so that several can share etcd."""

from base64 import b64encode
from typing import Any

from quiver.coordination.etcd.messages import StoredKey
from quiver.coordination.port import KeyValue


class Keys:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()
        self.marker = _text(self._prefix)
        """A key that callers do not see. It is put where a transaction would change nothing, so that every
        transaction has a revision that watches of this prefix get."""

    def named(self, key: str) -> str:
        return _text(self._prefix + key.encode())

    def begin_with(self, prefix: str) -> dict[str, Any]:
        """The part of a request that selects the keys which begin with a prefix."""
        first = self._prefix + prefix.encode()
        return {"key": _text(first), "range_end": _text(first[:-1] + bytes([first[-1] + 1]))}

    def after(self, key: bytes) -> str:
        """The first name that can follow a key."""
        return _text(key + b"\0")

    def read(self, stored: StoredKey) -> KeyValue | None:
        """None for the marker."""
        key = stored.key[len(self._prefix) :].decode()
        return KeyValue(key, stored.value, stored.mod_revision) if key else None


def _text(key: bytes) -> str:
    return b64encode(key).decode()
