"""A handler and its options."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from quiver.client.work.options import WorkOptions

Handler = Callable[[Any], Any]
"""Gets a job. Returning acks it, an exception nacks it, `Reject` dead-letters it."""

WORKER_MARK = "__quiver_worker__"
"""The attribute in which a handler keeps its options."""


class WorkerDefinition(msgspec.Struct, frozen=True):
    handler: Handler
    topics: str | Sequence[str]
    group: str
    concurrency: int
    options: WorkOptions
