"""The requests of one client: begun in the order received, each response sent when it is ready."""

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from functools import partial

from quiver.gateways.native.context import NativeContext
from quiver.gateways.native.handshake import check_worker, welcome
from quiver.gateways.native.outbox import Outbox
from quiver.gateways.native.requests import RESPONSES
from quiver.gateways.native.requests.messages import fetch_slices
from quiver.gateways.native.requests.queues import max_unacked, receive, received
from quiver.model.errors import InvalidRequest, ProtocolError, QuiverError, ShuttingDown
from quiver.partition.partition import Appended
from quiver.protocol import messages
from quiver.protocol.failure import failure_of
from quiver.protocol.group_messages import GroupHeartbeat, JoinGroup, LeaveGroup, MemberAssignment
from quiver.protocol.messages import Fetch, Hello, Message, Produce, Produced, Request
from quiver.protocol.packet import Packet, decode_request, encode_packet
from quiver.protocol.queue_messages import Receive
from quiver.queues.service import Received as Lease
from quiver.storage.port import FrameSlice
from quiver.system.memory_budget import Holding
from quiver.telemetry.gateway_counts import OperationCounts
from quiver.telemetry.histogram import LATENCY_SECONDS

logger = logging.getLogger(__name__)

_CLIENT_GONE = "client_gone"
_ACKS = (messages.ACKS_NONE, messages.ACKS_LEADER, messages.ACKS_ALL)


class Session:
    """Turns packets into calls of the broker. `on_done` is called whenever a request is no longer in flight."""

    def __init__(
        self,
        context: NativeContext,
        peer: str,
        outbox: Outbox,
        holding: Holding,
        *,
        on_done: Callable[[], None],
    ) -> None:
        self._broker, self._settings, self._counts = context.broker, context.settings, context.counts
        self._operations, self._publish = context.served.operations, context.served.publish
        self._now = context.broker.clock.monotonic
        self._ports, self._place = context.ports, context.place
        self._peer, self._outbox, self._holding = peer, outbox, holding
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[str]] = set()
        self._waits: dict[asyncio.Task[str], None] = {}
        """Of the tasks, those that only wait, in the order in which they began."""
        self._wait_end: QuiverError | None = None
        self._consumer = f"{peer}/{context.counts.connections_total}"
        """The name of consumers that have none."""
        self._unsent: deque[tuple[int, list[Lease]]] = deque()
        """Leases in responses, each with the number of bytes that are sent when its response has left."""
        self._members: set[tuple[str, str]] = set()
        """Members of stream groups, by group and id, that sent something here."""
        self.greeted = False
        self._names_worker = False
        """The client goes to the workers of its choice."""
        self.in_flight = 0
        self.in_flight_bytes = 0

    def begin(self, packet: Packet) -> None:
        """Begins a request; its frame, if any, is in the partition's queue on return.

        Errors become responses, except before the handshake: then they are raised and the client is disconnected.
        OtherWorkerWanted is raised before anything was sent.
        """
        self._counts.requests += 1
        try:
            request = decode_request(packet.message_bytes)
            if not self.greeted:
                self._greet(packet.correlation, request)
            elif isinstance(request, Produce):
                self._produce(packet.correlation, request, packet.payload)
            elif packet.payload:
                raise ProtocolError(problem=f"{type(request).__name__} carries no payload")
            elif isinstance(request, Hello):
                raise ProtocolError(problem="Hello was sent twice")
            else:
                self._start(packet.correlation, request, len(packet.message_bytes))
        except QuiverError as error:
            if not self.greeted:
                error.details["correlation"] = packet.correlation
                raise
            self.fail(packet.correlation, error)

    def fail(self, correlation: int, error: BaseException) -> None:
        self._counts.failures += 1
        if not isinstance(error, QuiverError):
            logger.error("a request from %s failed unexpectedly", self._peer, exc_info=error)
        self._response(correlation, failure_of(error))

    def end_waiting(self, error: QuiverError | None) -> None:
        """Ends requests that only wait for something to happen, with a response or without."""
        self._wait_end = error
        for task in self._waits:
            task.cancel()

    def let_go(self) -> None:
        """Nobody is told of finished requests any more."""
        self._on_done = _nothing

    def forget_sent(self) -> None:
        """Leases that have left are the client's."""
        while self._unsent and self._unsent[0][0] <= self._outbox.sent_total:
            self._unsent.popleft()

    def give_back_unsent(self) -> None:
        """The connection is gone: leases that it has not sent become available again."""
        self.forget_sent()
        for _, leases in self._unsent:
            self._broker.queues.give_back_later(leases)
        self._unsent.clear()

    def members_lost(self) -> None:
        """The connection is gone: its members may be gone, too."""
        members = self._broker.streams.members
        while self._members:
            group, member_id = self._members.pop()
            if members.connections.forget(group, member_id, self):
                members.connection_lost(group, member_id)

    def _heard(self, group: str, member_id: str) -> None:
        self._members.add((group, member_id))
        self._broker.streams.members.connections.note(group, member_id, self)
        if self._outbox.is_closed:
            self.members_lost()

    def _greet(self, correlation: int, request: Request) -> None:
        if not isinstance(request, Hello):
            raise ProtocolError(problem=f"a connection begins with Hello, not with {type(request).__name__}")
        check_worker(request, self._place)
        broker = self._broker
        self._response(correlation, welcome(request, broker.node_id, broker.limits, self._ports.http, self._place))
        self.greeted, self._names_worker = True, request.worker >= 0

    def _produce(self, correlation: int, request: Produce, frame: memoryview) -> None:
        wanted, began = correlation if request.acks != messages.ACKS_NONE else None, self._now()
        try:
            if request.acks not in _ACKS:
                raise InvalidRequest(problem=f"acks {request.acks} is not one of 0, 1 and -1")
            appended = self._broker.produce(
                request.topic_id,
                request.partition,
                frame,
                partition_count=request.partition_count,
                alone=request.acks == messages.ACKS_LEADER,
            )
        except Exception as error:
            self._publish.seconds.observe(self._now() - began)
            self._fail_produce(wanted, error)
            return
        self.in_flight += 1
        self.in_flight_bytes += len(frame)
        if appended.done():
            self._on_produced(wanted, len(frame), began, appended)
        else:
            appended.add_done_callback(partial(self._on_produced_later, wanted, len(frame), began))

    def _on_produced(self, wanted: int | None, size: int, began: float, appended: "asyncio.Future[Appended]") -> None:
        self.in_flight -= 1
        self.in_flight_bytes -= size
        took, seconds = self._now() - began, self._publish.seconds
        seconds.counts[bisect_left(LATENCY_SECONDS, took)] += 1
        seconds.sum += took
        error = ShuttingDown() if appended.cancelled() else appended.exception()
        if error is not None:
            self._fail_produce(wanted, error)
        elif wanted is not None:
            self._response(wanted, Produced(*appended.result()))
        self._on_done()

    def _on_produced_later(
        self, wanted: int | None, size: int, began: float, appended: "asyncio.Future[Appended]"
    ) -> None:
        """In a turn of its own: the last response that a client waits for leaves before readers are served."""
        self._on_produced(wanted, size, began, appended)
        if not self.in_flight:
            self._outbox.flush()

    def _fail_produce(self, wanted: int | None, error: BaseException) -> None:
        self._publish.failed(_code_of(error))
        if wanted is not None:
            self.fail(wanted, error)
        else:
            self._counts.failures += 1
            logger.info("a frame from %s with acks=none was not stored: %s", self._peer, error)

    def _start(self, correlation: int, request: Request, size: int) -> None:
        self.in_flight += 1
        self.in_flight_bytes += size
        counts = self._operations[type(request).__name__]
        task = self._loop.create_task(self._carry_out(correlation, request))
        self._tasks.add(task)
        if _only_waits(request):
            self._waits[task] = None
        task.add_done_callback(partial(self._on_task_done, size, counts, self._now()))

    def _on_task_done(self, size: int, counts: OperationCounts, began: float, task: asyncio.Task[str]) -> None:
        took, seconds = self._now() - began, counts.seconds
        seconds.counts[bisect_left(LATENCY_SECONDS, took)] += 1
        seconds.sum += took
        if task.cancelled() or (code := task.result()):
            counts.failed(_CLIENT_GONE if task.cancelled() else code)
        self._tasks.discard(task)
        self._waits.pop(task, None)
        self.in_flight -= 1
        self.in_flight_bytes -= size
        self._on_done()

    async def _receive(self, request: Receive) -> list[Lease]:
        return await receive(self._broker, request, self._consumer, own_first=self._names_worker)

    async def _carry_out(self, correlation: int, request: Request) -> str:
        """Returns the code of the error, or nothing if all went well."""
        slices: tuple[FrameSlice, ...] = ()
        response: Message
        try:
            if isinstance(request, Receive):
                self._holding.check()
                leases = await self._receive(request)
                limits = max_unacked(self._broker, request) if self._names_worker else ()
                self._hand_over(correlation, leases, limits)
                return ""
            if isinstance(request, Fetch):
                response, slices = await fetch_slices(self._broker, request, self._settings)
            else:
                if isinstance(request, GroupHeartbeat):
                    self._heard(request.group, request.member_id)
                response = await RESPONSES[type(request)](self._broker, request)
                if isinstance(request, JoinGroup) and isinstance(response, MemberAssignment):
                    self._heard(request.group, response.member_id)
                elif isinstance(request, LeaveGroup):
                    self._members.discard((request.group, request.member_id))
                    self._broker.streams.members.connections.forget(request.group, request.member_id, self)
        except asyncio.CancelledError:
            if self._wait_end is None:
                raise
            self.fail(correlation, self._wait_end)
            return self._wait_end.code
        except Exception as error:
            self.fail(correlation, error)
            return _code_of(error)
        self._response(correlation, response, slices)
        if self.in_flight == 1:  # this one
            self._outbox.flush()
        return ""

    def _hand_over(self, correlation: int, leases: list[Lease], limits: tuple[int, ...]) -> None:
        if self._outbox.is_closed:
            self._broker.queues.give_back_later(leases)
            return
        try:
            response, payload = received(leases, limits)
            packet = encode_packet(correlation, response, sum(map(len, payload)))
        except Exception:
            self._broker.queues.give_back_later(leases)
            raise
        self._outbox.put(packet, (), payload)
        self._unsent.append((self._outbox.put_total, leases))

    def _response(self, correlation: int, message: Message, slices: tuple[FrameSlice, ...] = ()) -> None:
        """Every request gets a response: one that cannot be encoded becomes a failure."""
        try:
            packet = encode_packet(correlation, message, sum([part.length for part in slices]) if slices else 0)
        except Exception:
            logger.exception("the response to a request from %s cannot be encoded", self._peer)
            for part in slices:
                part.release()
            packet, slices = encode_packet(correlation, failure_of(QuiverError())), ()
        self._outbox.put(packet, slices)


def _code_of(error: BaseException) -> str:
    return error.code if isinstance(error, QuiverError) else QuiverError.code


def _only_waits(request: Request) -> bool:
    """Whether a request can be given up at any moment: it changes nothing, or takes back what it did."""
    return isinstance(request, Fetch | Receive) or (isinstance(request, GroupHeartbeat) and not request.revoked)


def _nothing() -> None:
    pass
