"""What a route offers: one operation per method, with the types that its handler and the OpenAPI document share."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.model.errors import QuiverError

Handler = Callable[[Request], Awaitable[Response | StreamedResponse]]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    handler: Handler
    summary: str
    tag: str
    response: Any
    """The struct of a successful response, or None where the response is a page."""
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
