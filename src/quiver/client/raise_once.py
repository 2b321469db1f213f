"""An error in place of items."""

from typing import Any

from quiver.model.errors import QuiverError


class RaiseOnce:
    """An iterator that raises once and is empty afterwards, so that iteration can continue after the error."""

    def __init__(self, error: QuiverError) -> None:
        self._error: QuiverError | None = error

    def __iter__(self) -> "RaiseOnce":
        return self

    def __next__(self) -> Any:
        error, self._error = self._error, None
        if error is None:
            raise StopIteration
        raise error
