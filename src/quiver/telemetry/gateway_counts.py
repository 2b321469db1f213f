"""What a gateway has served: held by the gateway, and shown by whoever knows it."""

from collections.abc import Iterable

from quiver.telemetry.histogram import Histogram


class OperationCounts:
    """Of one kind of request. Requests that failed are also in `seconds`."""

    __slots__ = ("failures", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram()
        """From the arrival of a request to its response, waiting included."""
        self.failures: dict[str, int] = {}
        """By error code."""

    def failed(self, code: str) -> None:
        self.failures[code] = self.failures.get(code, 0) + 1


class GatewayCounts:
    def __init__(self, name: str, *, operations: Iterable[str], publish: str) -> None:
        self.name = name
        self.operations = {operation: OperationCounts() for operation in operations}
        self.publish = self.operations[publish]
        """The requests that publish."""
        self.connections = 0
        """Open now."""
