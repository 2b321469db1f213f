"""What the JSON gateway sends and takes, as far as it is used. Numbers of 64 bits are texts, bytes are base64."""

from typing import Any, TypeVar

import msgspec


class Header(msgspec.Struct, frozen=True):
    cluster_id: int = 0
    revision: int = 0


class StoredKey(msgspec.Struct, frozen=True):
    key: bytes
    value: bytes = b""
    mod_revision: int = 0


class Answer(msgspec.Struct, frozen=True):
    """A response of which only the header is of interest."""

    header: Header = Header()


class RangeAnswer(msgspec.Struct, frozen=True):
    header: Header = Header()
    kvs: list[StoredKey] = []
    more: bool = False


class CommitAnswer(msgspec.Struct, frozen=True):
    header: Header = Header()
    succeeded: bool = False


class GrantAnswer(msgspec.Struct, frozen=True):
    header: Header = Header()
    id: int = msgspec.field(name="ID", default=0)


class LeaseLife(msgspec.Struct, frozen=True):
    header: Header = Header()
    ttl: int = msgspec.field(name="TTL", default=0)
    """In seconds; 0 or less for a lease that is not there."""


class KeepAliveAnswer(msgspec.Struct, frozen=True):
    result: LeaseLife

    @property
    def header(self) -> Header:
        return self.result.header


class TokenAnswer(msgspec.Struct, frozen=True):
    header: Header = Header()
    token: str = ""


class StatusAnswer(msgspec.Struct, frozen=True):
    header: Header = Header()
    version: str = ""
    leader: int = 0


class Refusal(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class WatchEvent(msgspec.Struct, frozen=True):
    kv: StoredKey
    type: str = "PUT"


class WatchResult(msgspec.Struct, frozen=True):
    header: Header = Header()
    events: list[WatchEvent] = []
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""


class WatchLine(msgspec.Struct, frozen=True):
    result: WatchResult | None = None
    error: Refusal | None = None


T = TypeVar("T")


def decode(data: bytes, kind: type[T]) -> T:
    """Raises msgspec.MsgspecError."""
    return msgspec.json.decode(data, type=kind, strict=False)


def encode(request: dict[str, Any]) -> bytes:
    return msgspec.json.encode(request)
