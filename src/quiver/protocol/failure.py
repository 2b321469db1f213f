"""Errors on the wire."""

from quiver.model.errors import QuiverError, error_from_wire
from quiver.protocol.messages import Failure


def failure_of(error: BaseException) -> Failure:
    """The failure to send for an error; one that is not ours says nothing of its cause."""
    known = error if isinstance(error, QuiverError) else QuiverError()
    return Failure(known.code, known.message, known.retryable)


def error_of(failure: Failure) -> QuiverError:
    """The error that a peer's failure stands for."""
    return error_from_wire(failure.code, failure.message, failure.retryable)
