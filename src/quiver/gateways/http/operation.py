"""What a route offers: one operation per method, with the types that its handler and the OpenAPI document share."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from quiver.gateways.http.request import Receive, Request, Scope, Send
from quiver.gateways.http.response import Response, StreamedResponse, send_response, send_stream
from quiver.model.errors import MethodNotAllowed, QuiverError

Handler = Callable[[Request], Awaitable[Response | StreamedResponse]]
REQUEST_KEY = "quiver.request"


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


class Resource:
    """The ASGI end of one path: picks the operation by method and sends what its handler returns."""

    __slots__ = ("_allowed", "_operations", "_path")

    def __init__(self, path: str, operations: Mapping[str, Operation]) -> None:
        self._path = path
        self._operations = dict(operations)
        if "GET" in operations:
            self._operations["HEAD"] = operations["GET"]
        self._allowed = ", ".join(self._operations)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request: Request = scope[REQUEST_KEY]
        request.params, request.route = scope["path_params"], self._path
        operation = self._operations.get(request.method)
        if operation is None:
            raise MethodNotAllowed(path=request.path, method=request.method, allowed=self._allowed)
        response = await operation.handler(request)
        if isinstance(response, Response):
            await send_response(request, response, send)
        else:
            await send_stream(request, response, send)
