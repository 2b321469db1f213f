"""Items of a push, and how they become messages of the broker."""

import re
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from quiver.gateways.http.media import JSON, Media
from quiver.gateways.queen.identifiers import random_id
from quiver.gateways.queen.messages import ID_HEADER, TRACE_HEADER, TRANSACTION_HEADER, checked_text, dedup_id
from quiver.gateways.queen.options import options_of
from quiver.gateways.queen.queues import checked_queue, partition_key
from quiver.model.errors import InvalidRequest
from quiver.model.message import NewMessage
from quiver.model.topic import Topic

ABSENT = msgspec.Raw()
_LONGEST_TRANSACTION_ID = 512
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_decode_packed = msgspec.msgpack.Decoder().decode


def absent() -> msgspec.Raw:
    return ABSENT


class PushItem(msgspec.Struct, kw_only=True, rename="camel"):
    queue: str
    partition: Annotated[str | None, Meta(description="`Default` if it is left out.")] = None
    payload: Annotated[msgspec.Raw, Meta(description="Any JSON; null if it is left out.")] = msgspec.field(
        default_factory=absent
    )
    transaction_id: Annotated[
        str | None, Meta(description="Pushed again within dedupWindowSeconds, it is a duplicate in its partition.")
    ] = None
    trace_id: Annotated[str | None, Meta(description="A UUID.")] = None

    @property
    def key(self) -> bytes:
        return partition_key(self.partition)

    def message(self, media: Media) -> NewMessage:
        """InvalidRequest and InvalidName say what is wrong with it."""
        checked_queue(self.queue)
        key = self.key
        if not self.transaction_id and not self.trace_id:
            return NewMessage(value=json_text(self.payload, media), key=key)
        headers: dict[str, bytes] = {}
        if self.transaction_id:
            if len(self.transaction_id) > _LONGEST_TRANSACTION_ID:
                raise InvalidRequest(problem=f"a transactionId has at most {_LONGEST_TRANSACTION_ID} characters")
            headers[TRANSACTION_HEADER] = self.transaction_id.encode()
        if self.trace_id:
            if _UUID.fullmatch(self.trace_id) is None:
                raise InvalidRequest(problem=f"traceId {self.trace_id[:80]!r} is not a UUID")
            headers[TRACE_HEADER] = self.trace_id.encode()
        return NewMessage(
            value=json_text(self.payload, media),
            key=key,
            headers=headers,
            id=dedup_id(key, self.transaction_id) if self.transaction_id else None,
        )


def for_queue(message: NewMessage, topic: Topic, now_ms: int) -> NewMessage:
    """The message as the options of its queue want it: with delayedProcessing, it is delayed.

    A delayed message gets its offset when it is due. So it has its ids in headers.
    """
    seconds = options_of(topic).delayed_processing
    if not seconds:
        return message
    headers = dict(message.headers or {})
    headers[ID_HEADER] = (random_id() if message.id is None else str(UUID(bytes=message.id))).encode()
    headers.setdefault(TRANSACTION_HEADER, headers[ID_HEADER])
    return msgspec.structs.replace(message, headers=headers, deliver_at_ms=now_ms + seconds * 1000)


def json_text(given: msgspec.Raw, media: Media) -> bytes:
    """A value as JSON; InvalidRequest if it cannot be written so."""
    if given is ABSENT:
        return b"null"
    try:
        if media is JSON:
            return checked_text(bytes(given))
        return msgspec.json.encode(_decode_packed(given), enc_hook=_refuse)
    except (msgspec.DecodeError, msgspec.EncodeError, UnicodeError, TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(problem=f"a value cannot be written as JSON: {error}") from None


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not a type of JSON")
