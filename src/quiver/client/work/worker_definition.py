"""A handler and what it is for."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from quiver.client.work.options import WorkOptions

Handler = Callable[[Any], Any]
"""Gets a job. Returning acks it, an exception gives it back, `Reject` sends it to the dead letters."""

WORKER_MARK = "__quiver_worker__"
"""Where a handler keeps what it was registered with."""


class WorkerDefinition(msgspec.Struct, frozen=True):
    handler: Handler
    topics: str | Sequence[str]
    group: str
    concurrency: int
    options: WorkOptions
