"""What an error of the database means for a request."""

import asyncio

import asyncpg
from asyncpg.exceptions import InternalClientError

from quiver.model.errors import StorageUnavailable

Failure = (asyncpg.PostgresError, asyncpg.InterfaceError, InternalClientError, OSError, TimeoutError)
"""Everything that a statement may raise. The driver raises InternalClientError where a server that goes away
interrupts it in the middle of a message."""
_PASSING_CLASSES = frozenset(("08", "40", "53", "55", "57", "58"))
"""Connections, conflicts, resources (disk, memory, connections), locks, an operator's intervention, the system."""
_READ_ONLY = "25006"


def check_cancelled() -> None:
    """In the handler of a CancelledError: raises it again if this task was cancelled.

    The driver may also end what waits for a connection that is lost in this way; that is a lost connection.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def is_passing(error: BaseException) -> bool:
    """Whether the same statement may succeed later, on this connection or another."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state[:2] in _PASSING_CLASSES or state == _READ_ONLY
    return isinstance(
        error, OSError | TimeoutError | asyncpg.InterfaceError | InternalClientError
    ) and not isinstance(error, ValueError)


def described(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, TimeoutError):
        text = "it does not respond"
    return text.rstrip(".")


def unavailable(problem: str) -> StorageUnavailable:
    return StorageUnavailable(problem=problem)
