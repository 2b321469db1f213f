"""Quiver: a message broker in Python. One log for streams, queues and tables.

`connect` reaches a broker, `open` runs one inside this process. Importing this module is cheap: what
is behind a name is loaded when the name is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from quiver.model.errors import QuiverError

if TYPE_CHECKING:
    from quiver.app.embedded import open, open_async
    from quiver.client import (
        AsyncBulkSendFuture,
        AsyncClient,
        AsyncFrames,
        AsyncJob,
        AsyncJobBatch,
        AsyncPendingFetch,
        AsyncProducer,
        AsyncReader,
        AsyncSearch,
        AsyncSendFuture,
        AsyncStream,
        AsyncTransaction,
        AsyncTransactional,
        AsyncWork,
        BulkSendFuture,
        Client,
        FetchedFrames,
        FoundMessage,
        Frames,
        Job,
        JobBatch,
        Message,
        PartitionReplicas,
        PendingFetch,
        Producer,
        ProducerKey,
        Published,
        Reader,
        Reject,
        ReplicaNode,
        Search,
        SendFuture,
        Span,
        Stream,
        Transaction,
        Transactional,
        Work,
        connect,
        connect_async,
    )
    from quiver.model import errors

__version__ = "0.1.0"

__all__ = [
    "AsyncBulkSendFuture",
    "AsyncClient",
    "AsyncFrames",
    "AsyncJob",
    "AsyncJobBatch",
    "AsyncPendingFetch",
    "AsyncProducer",
    "AsyncReader",
    "AsyncSearch",
    "AsyncSendFuture",
    "AsyncStream",
    "AsyncTransaction",
    "AsyncTransactional",
    "AsyncWork",
    "BulkSendFuture",
    "Client",
    "FetchedFrames",
    "FoundMessage",
    "Frames",
    "Job",
    "JobBatch",
    "Message",
    "PartitionReplicas",
    "PendingFetch",
    "Producer",
    "ProducerKey",
    "Published",
    "QuiverError",
    "Reader",
    "Reject",
    "ReplicaNode",
    "Search",
    "SendFuture",
    "Span",
    "Stream",
    "Transaction",
    "Transactional",
    "Work",
    "__version__",
    "connect",
    "connect_async",
    "errors",
    "open",
    "open_async",
]

_EMBEDDED = ("open", "open_async")


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("quiver.model.errors")
    if name in __all__:
        module = "quiver.app.embedded" if name in _EMBEDDED else "quiver.client"
        value = globals()[name] = getattr(importlib.import_module(module), name)
        return value
    raise AttributeError(f"module 'quiver' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
