"""What workers have done so far."""

import msgspec


class WorkerCounters(msgspec.Struct):
    processed: int = 0
    """Handled without an exception."""
    failed: int = 0
    """Nacked with an exception's text."""
    rejected: int = 0
    lost: int = 0
    """Leases that ended before their messages were settled."""
    in_flight: int = 0
    """Handlers that are running now."""


def total(counters: list[WorkerCounters]) -> WorkerCounters:
    fields = WorkerCounters.__struct_fields__
    return WorkerCounters(**{name: sum(getattr(each, name) for each in counters) for name in fields})
