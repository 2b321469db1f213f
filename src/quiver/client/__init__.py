"""The SDK. Asynchronous classes begin with `Async` and have the same methods, awaited.

Few programs use both kinds, and importing one takes a quarter of a second: each class is imported when its name is
first used.
"""

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quiver.client.admin.replicas import PartitionReplicas, ReplicaNode
from quiver.client.connection.address import parse_bootstrap
from quiver.client.message import Message
from quiver.client.produce.published import Published, Span
from quiver.client.read.fetched_frames import FetchedFrames
from quiver.client.search.found_message import FoundMessage
from quiver.client.work.reject import Reject
from quiver.model.times import Duration
from quiver.protocol.transaction_messages import ProducerKey

if TYPE_CHECKING:
    from quiver.client._async.client import AsyncClient
    from quiver.client._async.connection.environment import AsyncEnvironment as AsyncEnvironment
    from quiver.client._async.produce.producer import AsyncProducer
    from quiver.client._async.produce.send_future import AsyncBulkSendFuture, AsyncSendFuture
    from quiver.client._async.read.frames import AsyncFrames, AsyncPendingFetch
    from quiver.client._async.read.reader import AsyncReader
    from quiver.client._async.search.search import AsyncSearch
    from quiver.client._async.stream.stream import AsyncStream
    from quiver.client._async.transaction.transaction import AsyncTransaction
    from quiver.client._async.transaction.transactional import AsyncTransactional
    from quiver.client._async.work.job import AsyncJob
    from quiver.client._async.work.job_batch import AsyncJobBatch
    from quiver.client._async.work.work import AsyncWork
    from quiver.client._sync.client import Client
    from quiver.client._sync.connection.environment import Environment as Environment
    from quiver.client._sync.produce.producer import Producer
    from quiver.client._sync.produce.send_future import BulkSendFuture, SendFuture
    from quiver.client._sync.read.frames import Frames, PendingFetch
    from quiver.client._sync.read.reader import Reader
    from quiver.client._sync.search.search import Search
    from quiver.client._sync.stream.stream import Stream
    from quiver.client._sync.transaction.transaction import Transaction
    from quiver.client._sync.transaction.transactional import Transactional
    from quiver.client._sync.work.job import Job
    from quiver.client._sync.work.job_batch import JobBatch
    from quiver.client._sync.work.work import Work

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
    "connect",
    "connect_async",
]

_TWINS = {
    "BulkSendFuture": "produce.send_future",
    "Client": "client",
    "Environment": "connection.environment",
    "Frames": "read.frames",
    "Job": "work.job",
    "JobBatch": "work.job_batch",
    "PendingFetch": "read.frames",
    "Producer": "produce.producer",
    "Reader": "read.reader",
    "Search": "search.search",
    "SendFuture": "produce.send_future",
    "Stream": "stream.stream",
    "Transaction": "transaction.transaction",
    "Transactional": "transaction.transactional",
    "Work": "work.work",
}
"""The module of each class that exists twice: below `_sync`, and below `_async` with a name that begins with
Async."""

DEFAULT_ADDRESS = "localhost:7481"
DEFAULT_CLIENT_ID = "quiver-python"


def __getattr__(name: str) -> Any:
    plain = name.removeprefix("Async")
    if plain not in _TWINS:
        raise AttributeError(f"module 'quiver.client' has no attribute {name!r}")
    twin = "_sync" if name == plain else "_async"
    value = globals()[name] = getattr(importlib.import_module(f"quiver.client.{twin}.{_TWINS[plain]}"), name)
    return value


def connect(
    address: str | Sequence[str] = DEFAULT_ADDRESS,
    *,
    timeout: Duration = 30,
    client_id: str = DEFAULT_CLIENT_ID,
    tracing: float = 0.0,
    lazy: bool = False,
) -> "Client":
    """A connected client of the broker at `host:port`. Raises ConnectionLost if there is no response.

    Of several addresses ("a:7481,b:7481" or a list) the first that responds is used.

    `timeout` is how long a call may take, including reconnecting. The broker logs `client_id`. With `lazy` the client
    connects when it is first used. `tracing` is the share of messages that begin a trace, from 0 to 1; where there is
    a current span of OpenTelemetry, messages are in its trace. Use the client in a `with` block, or close it.
    """
    from quiver.client._sync.client import Client

    client = Client(parse_bootstrap(address), timeout=timeout, client_id=client_id, tracing=tracing)
    return client if lazy else client.connect()


def connect_async(
    address: str | Sequence[str] = DEFAULT_ADDRESS,
    *,
    timeout: Duration = 30,
    client_id: str = DEFAULT_CLIENT_ID,
    tracing: float = 0.0,
) -> "AsyncClient":
    """The asynchronous twin: `async with quiver.connect_async() as q`, or `q = await quiver.connect_async()`."""
    from quiver.client._async.client import AsyncClient

    return AsyncClient(parse_bootstrap(address), timeout=timeout, client_id=client_id, tracing=tracing)
