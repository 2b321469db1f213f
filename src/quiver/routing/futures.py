"""Results of calls that were begun and are not awaited where they are begun."""

import asyncio
from typing import TypeVar

from quiver.links.request import Reply

T = TypeVar("T")


def value_of(call: "asyncio.Future[Reply[T]]") -> "asyncio.Future[T]":
    """A future of the value alone. Whoever cancels it no longer waits; the call is carried out all the same."""
    value: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def on_done(done: "asyncio.Future[Reply[T]]") -> None:
        if value.done():
            done.exception()  # nobody asks for it
        elif (error := done.exception()) is not None:
            value.set_exception(error)
        else:
            value.set_result(done.result().value)

    call.add_done_callback(on_done)
    return value
