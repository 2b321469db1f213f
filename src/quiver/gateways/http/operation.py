"""What a route offers: one operation per method, with the types that its handler and the OpenAPI document share."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.model.errors import QuiverError

Handler = Callable[[Request], Awaitable[Response | StreamedResponse]]


class Begun(NamedTuple):
    """A request that only waits for one future."""

    future: "asyncio.Future[Any]"
    response: Callable[[], Response]
    """When the future is done."""


Begin = Callable[[Request], Begun | Response | None]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    handler: Handler
    begin: Begin | None = None
    """Begins simple requests without a task of their own; None: `handler` is to handle it."""
    summary: str
    tag: str
    response: Any
    """The struct of a successful response, or None where the response is a page."""
    form: str | None = None
    """The content type, where it is neither JSON nor MessagePack. Of a stream, `response` describes a line."""
    body: Any = None
    body_needed: bool = False
    """A request without a body is refused, whichever of its fields it has."""
    example: Any = None
    """A body to begin with, for the documents."""
    query: Any = None
    status: int = 200
    other_status: int | None = None
    """Another status of a successful response."""
    errors: tuple[type[QuiverError], ...] = ()


Routes = Mapping[str, Mapping[str, Operation]]
"""Path template -> method -> operation."""
