"""The SDK. Asynchronous classes have `Async` in front of their name, and the same verbs, awaited."""

from collections.abc import Sequence

from quiver.client._async.client import AsyncClient
from quiver.client._async.job import AsyncJob
from quiver.client._async.job_batch import AsyncJobBatch
from quiver.client._async.producer import AsyncProducer
from quiver.client._async.reader import AsyncReader
from quiver.client._async.stream import AsyncStream
from quiver.client._async.ticket import AsyncBulkTicket, AsyncTicket
from quiver.client._async.transaction import AsyncTransaction
from quiver.client._async.transactional import AsyncTransactional
from quiver.client._async.work import AsyncWork
from quiver.client._sync.client import Client
from quiver.client._sync.job import Job
from quiver.client._sync.job_batch import JobBatch
from quiver.client._sync.producer import Producer
from quiver.client._sync.reader import Reader
from quiver.client._sync.stream import Stream
from quiver.client._sync.ticket import BulkTicket, Ticket
from quiver.client._sync.transaction import Transaction
from quiver.client._sync.transactional import Transactional
from quiver.client._sync.work import Work
from quiver.client.address import parse_bootstrap
from quiver.client.message import Message
from quiver.client.published import Published, Span
from quiver.client.reject import Reject
from quiver.model.times import Duration
from quiver.protocol.transaction_messages import ProducerKey

__all__ = [
    "AsyncBulkTicket",
    "AsyncClient",
    "AsyncJob",
    "AsyncJobBatch",
    "AsyncProducer",
    "AsyncReader",
    "AsyncStream",
    "AsyncTicket",
    "AsyncTransaction",
    "AsyncTransactional",
    "AsyncWork",
    "BulkTicket",
    "Client",
    "Job",
    "JobBatch",
    "Message",
    "Producer",
    "ProducerKey",
    "Published",
    "Reader",
    "Reject",
    "Span",
    "Stream",
    "Ticket",
    "Transaction",
    "Transactional",
    "Work",
    "connect",
    "connect_async",
]

DEFAULT_ADDRESS = "localhost:7481"


def connect(address: str | Sequence[str] = DEFAULT_ADDRESS, *, timeout: Duration = 30) -> Client:
    """A client of the broker at `host:port`, connected; ConnectionLost when nobody answers there.

    Of several addresses ("a:7481,b:7481" or a list) the first that answers is used.

    `timeout` is how long a call may take, reconnecting included. Use the client in a `with` block, or close it.
    """
    return Client(parse_bootstrap(address), timeout=timeout).connect()


def connect_async(address: str | Sequence[str] = DEFAULT_ADDRESS, *, timeout: Duration = 30) -> AsyncClient:
    """The asynchronous twin: `async with quiver.connect_async() as q`, or `q = await quiver.connect_async()`."""
    return AsyncClient(parse_bootstrap(address), timeout=timeout)
