"""What one worker asks of another, and what it gets."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from quiver.model.errors import ProtocolError
from quiver.protocol.link_messages import LinkCall
from quiver.protocol.packet import Buffer

R = TypeVar("R")


class PeerRequest(msgspec.Struct, Generic[R], array_like=True, frozen=True):
    """A subclass names a method of a capability; its fields are the arguments, R is the type of the result.

    class FindOffset(PeerRequest[int], frozen=True):
        capability, method = "messages", "find_offset"
        topic_id: int
        ...
    """

    capability: ClassVar[str]
    method: ClassVar[str]
    only_waits: ClassVar[bool] = False
    """It changes nothing until it returns, or takes back what it did: it ends when the caller no longer waits."""
    needs_view: ClassVar[bool] = True
    """It is begun when this worker knows as much of topics and groups as the caller, after the calls before it. Calls
    that views are made of need none."""
    since: ClassVar[int] = 1
    """The first version of the protocol between nodes that has it; UnsupportedVersion where another node speaks an
    older one."""


class Reply(NamedTuple, Generic[R]):
    value: R
    payload: tuple[Buffer, ...] = ()


DONE = Reply(None)
"""Of a call that returns nothing."""
Handler = Callable[[Any, memoryview], Awaitable[Reply[Any]]]
"""Gets the request and its payload. What it does before it first waits, it does in the order of the calls."""


@cache
def result_decoder(kind: type[PeerRequest[Any]]) -> msgspec.msgpack.Decoder[Any]:
    bases = [each for each in getattr(kind, "__orig_bases__", ()) if get_origin(each) is not Generic]
    [base] = [each for each in bases if issubclass(get_origin(each) or each, PeerRequest)]
    return msgspec.msgpack.Decoder(get_args(base)[0])


class Handlers:
    """What a worker does for others, by capability and method."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str], tuple[type[PeerRequest[Any]], Handler]] = {}
        self._decoders: dict[tuple[str, str], msgspec.msgpack.Decoder[Any]] = {}

    def add(self, kind: type[PeerRequest[R]], handle: Callable[[Any, memoryview], Awaitable[Reply[R]]]) -> None:
        name = kind.capability, kind.method
        assert name not in self._handlers, f"{name} is there already"
        self._handlers[name] = kind, handle
        self._decoders[name] = msgspec.msgpack.Decoder(kind)

    def needs_view(self, capability: str, method: str) -> bool:
        kind, _ = self._handlers.get((capability, method), (PeerRequest, None))
        return kind.needs_view

    def of(self, kind: type[PeerRequest[R]]) -> Handler:
        """The same for a request that was not encoded."""
        found = self._handlers.get((kind.capability, kind.method))
        if found is None:
            raise ProtocolError(problem=f"workers have no call {kind.capability}.{kind.method}")
        return found[1]

    def find(self, call: LinkCall, version: int) -> tuple[PeerRequest[Any], Handler]:
        """ProtocolError when a version has no such method, or when the arguments do not fit."""
        name = call.capability, call.method
        if name not in self._handlers or self._handlers[name][0].since > version:
            raise ProtocolError(problem=f"workers have no call {'.'.join(name)} in version {version}")
        try:
            return self._decoders[name].decode(call.arguments), self._handlers[name][1]
        except msgspec.MsgspecError as problem:
            raise ProtocolError(problem=f"the arguments of {'.'.join(name)} do not fit: {problem}") from problem
