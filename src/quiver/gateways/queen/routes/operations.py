"""How operations of this interface are declared."""

from typing import Any
from urllib.parse import unquote

from quiver.gateways.http.operation import Handler, Operation
from quiver.gateways.http.request import Request
from quiver.gateways.queen.queues import checked_queue
from quiver.model.errors import InvalidName, InvalidRequest


def queen_operation(handler: Handler, summary: str, response: Any, **more: Any) -> Operation:
    errors = (InvalidRequest, InvalidName, *more.pop("errors", ()))
    return Operation(handler=handler, summary=summary, tag="Queen", response=response, errors=errors, **more)


def queue_of(request: Request) -> str:
    """The queue that the path names."""
    return checked_queue(unquote(request.params["queue"]))
