"""What workers have done so far."""

import msgspec


class WorkerTally(msgspec.Struct):
    processed: int = 0
    """Handled without an exception."""
    failed: int = 0
    """Given back with an exception's text."""
    rejected: int = 0
    lost: int = 0
    """Leases that were over before their messages were settled."""
    in_hand: int = 0
    """Handlers that run now."""


def total(tallies: list[WorkerTally]) -> WorkerTally:
    fields = WorkerTally.__struct_fields__
    return WorkerTally(**{name: sum(getattr(tally, name) for tally in tallies) for name in fields})
