"""What workers of one broker send each other: calls and their results, in the packets of the native protocol.

The correlation id of a packet names the call; what belongs to a call without a response has none. Payloads follow the
message as raw bytes.
"""

from typing import Any

import msgspec

from quiver.model.errors import ProtocolError, QuiverError, error_from_wire
from quiver.protocol.message import Message
from quiver.protocol.packet import Buffer


class LinkHello(Message, tag=0, frozen=True):
    """The first message: who calls."""

    worker: int


class LinkCall(Message, tag=1, frozen=True):
    capability: str
    method: str
    revision: int
    """How far the caller's view of the metadata is; whoever is called waits until its own is as far."""
    arguments: msgspec.Raw


class LinkCancel(Message, tag=2, frozen=True):
    """The caller no longer waits for the call that the correlation id names."""


class LinkResult(Message, tag=3, frozen=True):
    value: msgspec.Raw


class LinkFailure(Message, tag=4, frozen=True):
    code: str
    message: str
    retryable: bool
    details: dict[str, Any]


class LinkPing(Message, tag=5, frozen=True):
    """Whether the other worker still runs; sent while calls have no response."""


class LinkPong(Message, tag=6, frozen=True):
    """The response to a ping."""


class LinkChallenge(Message, tag=7, frozen=True):
    """The first message to whoever connects from another node."""

    nonce: bytes
    oldest: int = 1
    """Of the versions that this side speaks."""
    newest: int = 1


class LinkOpen(Message, tag=8, frozen=True):
    """Who connects, and whom it wants: a worker by its number, or a node by its id."""

    node: str
    target: int | str
    nonce: bytes
    proof: bytes
    """That the caller knows the secret of the cluster: over both nonces, its node and the target."""
    oldest: int = 1
    newest: int = 1


class LinkOpened(Message, tag=9, frozen=True):
    proof: bytes
    """That the other side knows the secret too."""
    version: int = 1
    """The one that is spoken on this link."""


LinkMessage = (
    LinkHello
    | LinkCall
    | LinkCancel
    | LinkResult
    | LinkFailure
    | LinkPing
    | LinkPong
    | LinkChallenge
    | LinkOpen
    | LinkOpened
)

_decoder: msgspec.msgpack.Decoder[LinkMessage] = msgspec.msgpack.Decoder(LinkMessage)
_encoder = msgspec.msgpack.Encoder(enc_hook=str)


def decode_link_message(message_bytes: Buffer) -> LinkMessage:
    try:
        return _decoder.decode(message_bytes)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise ProtocolError(problem=f"a message of another worker cannot be read: {problem}") from problem


def link_failure(error: BaseException) -> LinkFailure:
    """The failure to send for an error; one that is not ours says nothing of its cause."""
    known = error if isinstance(error, QuiverError) else QuiverError()
    details = msgspec.msgpack.decode(_encoder.encode(known.details))
    return LinkFailure(known.code, known.message, known.retryable, details)


def link_error(failure: LinkFailure) -> QuiverError:
    """The error that a failure stands for, with its details."""
    error = error_from_wire(failure.code, failure.message, failure.retryable)
    error.details.update(failure.details)
    return error
