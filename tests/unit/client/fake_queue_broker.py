"""A broker of one file with one queue group: leases, attempts, receives that wait, and faults for tests."""

import socket
from collections.abc import Iterable

import pyarrow as pa

from quiver.model.errors import LeaseLost, SettleInOrder
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT, SettleRequest
from quiver.protocol.group_messages import DescribeGroup, GroupDescription
from quiver.protocol.messages import Failure, Request, Response
from quiver.protocol.packet import encode_packet
from quiver.protocol.queue_messages import Receive, Received, ReceivedRun, RefusedRun, Settle, Settled, SettledPart
from quiver.records.build import seal
from quiver.records.columns import KEY, OFFSET_DELTA, VALUE
from quiver.records.header import FrameHeader, body_crc, header_crc, pack_header, unpack_header
from unit.client.fake_native_broker import FakeBroker

TIME_MS = 1_700_000_000_000
GROUP_ID = 3


class FakeMessage:
    def __init__(self, offset: int, key: bytes | None, value: bytes, level: int) -> None:
        self.offset, self.key, self.value, self.level = offset, key, value, level
        self.state = "ready"
        self.lease = 0
        self.attempt = 0
        self.error = ""

    def __repr__(self) -> str:
        return f"{self.offset}:{self.value!r} {self.state} lease {self.lease} attempt {self.attempt}"


class FakeQueueBroker(FakeBroker):
    """Partition 0 of the topic `jobs`. Nothing expires by itself: a test calls `expire`."""

    def __init__(self, *, visibility_ms: int = 30_000, ordering: str = "none") -> None:
        self.messages: list[FakeMessage] = []
        self.visibility_ms = visibility_ms
        self.ordering = ordering
        self.settled: list[SettleRequest] = []
        self.busy_settles = 0
        """So many parts are refused for now."""
        self._lease = 0
        self._waiting: list[tuple[socket.socket, int, Receive]] = []
        super().__init__(jobs=1)

    def add(self, *values: bytes, keys: Iterable[bytes | None] = (), level: int = 2) -> None:
        with self._mutex:
            names = [*keys, *[None] * len(values)]
            for value, key in zip(values, names, strict=False):
                self.messages.append(FakeMessage(len(self.messages), key, value, level))
            self._serve_waiting()

    def expire(self) -> None:
        """Every lease is over, and somebody else has got the messages."""
        with self._mutex:
            for message in self.messages:
                if message.state == "leased":
                    message.state, message.lease = "gone", -1

    def state_of(self, state: str) -> list[bytes]:
        with self._mutex:
            return [message.value for message in self.messages if message.state == state]

    def parts(self, action: int) -> list[SettleRequest]:
        return [part for part in self.settled if part.action == action]

    def _take(self, sock: socket.socket, correlation: int, request: Request, payload: memoryview) -> bool:
        if not isinstance(request, Receive):
            served = super()._take(sock, correlation, request, payload)
            with self._mutex:
                self._serve_waiting()
            return served
        with self._mutex:
            self.requests.append(request)
            fault = self.fault(request)
            if fault == "drop":
                return False
            if isinstance(fault, Failure):
                sock.sendall(encode_packet(correlation, fault))
                return True
            self._waiting.append((sock, correlation, request))
            self._serve_waiting()
            return True

    def _answer(self, request: Request, payload: memoryview) -> tuple[Response, bytes]:
        if isinstance(request, Settle):
            self.settled += request.parts
            return Settled([self._settle(part) for part in request.parts]), b""
        if isinstance(request, DescribeGroup):
            settings = {"ordering": self.ordering}
            return GroupDescription(request.group, "queue", "stable", "", "", 0, [], [], settings), b""
        return super()._answer(request, payload)

    def _serve_waiting(self) -> None:
        for sock, correlation, request in list(self._waiting):
            ready = self._ready()[: request.max_messages]
            if not ready:
                return
            self._waiting.remove((sock, correlation, request))
            self._lease += 1
            for message in ready:
                message.state, message.lease = "leased", self._lease
                message.attempt += 1
            runs = [self._run(run) for run in _runs(ready)]
            body = b"".join(frame for _, frame in runs)
            try:
                sock.sendall(encode_packet(correlation, Received([run for run, _ in runs]), len(body)) + body)
            except OSError:
                for message in ready:
                    message.state, message.attempt = "ready", message.attempt - 1

    def _ready(self) -> list[FakeMessage]:
        ready = [message for message in self.messages if message.state == "ready"]
        if self.ordering == "key":
            held = {message.key for message in self.messages if message.state == "leased"}
            ready = [message for message in ready if message.key is None or message.key not in held]
        return sorted(ready, key=lambda message: message.level)

    def _run(self, messages: list[FakeMessage]) -> tuple[ReceivedRun, bytes]:
        first = messages[0]
        frame = _frame(messages)
        run = ReceivedRun(
            1, 0, GROUP_ID, first.lease, first.offset, messages[-1].offset + 1, first.attempt,
            TIME_MS, self.visibility_ms, TIME_MS, first.error, len(frame),
        )  # fmt: skip
        return run, frame

    def _settle(self, part: SettleRequest) -> SettledPart:
        refused: list[RefusedRun] = []
        if self.busy_settles:
            self.busy_settles -= 1
            return SettledPart([RefusedRun(start, end, "shutting_down", "wait", True) for start, end in part.runs])
        for start, end in sorted(part.runs):
            for message in self.messages[start:end]:
                error: LeaseLost | SettleInOrder | None = None
                if message.lease != part.lease_id or message.state != "leased":
                    error = LeaseLost(message=f"jobs-0 offset {message.offset}")
                elif part.action in (ACK, REJECT) and (earlier := self._earlier(message)) is not None:
                    error = SettleInOrder(earlier=earlier, offset=message.offset)
                if error is not None:
                    is_settled = part.is_repeat and message.state in ("done", "dead")
                    refused.append(
                        RefusedRun(
                            message.offset, message.offset + 1, error.code, error.message, is_settled=is_settled
                        )
                    )
                else:
                    self._change(message, part)
        return SettledPart(refused, TIME_MS if part.action in (NACK, EXTEND) else None)

    def _earlier(self, message: FakeMessage) -> int | None:
        for other in self.messages[: message.offset] if self.ordering == "key" else ():
            if other.state == "leased" and other.lease == message.lease and other.key == message.key is not None:
                return other.offset
        return None

    def _change(self, message: FakeMessage, part: SettleRequest) -> None:
        if part.action == ACK:
            message.state = "done"
        elif part.action == REJECT:
            message.state, message.error = "dead", part.reason
        elif part.action == NACK:
            message.state = "ready" if part.delay_ms == 0 else "later"
            message.error = part.reason
            message.attempt -= not part.is_counted
            for other in self.messages if self.ordering == "key" and message.key is not None else ():
                if other.key == message.key and other.lease == message.lease and other.state == "leased":
                    other.state, other.attempt = "ready", other.attempt - 1


def _runs(messages: list[FakeMessage]) -> list[list[FakeMessage]]:
    """Messages of one level and attempt each; offsets in between may be missing."""
    runs: list[list[FakeMessage]] = []
    for message in messages:
        last = runs[-1][-1] if runs else None
        if last and (last.level, last.attempt) == (message.level, message.attempt) and last.offset < message.offset:
            runs[-1].append(message)
        else:
            runs.append([message])
    return runs


def _frame(messages: list[FakeMessage]) -> bytes:
    base = messages[0].offset
    deltas = [message.offset - base for message in messages]
    arrays = {VALUE.bit: pa.array([message.value for message in messages], pa.binary())}
    if any(message.key is not None for message in messages):
        arrays[KEY.bit] = pa.array([message.key for message in messages], pa.binary())
    if deltas != list(range(len(messages))):
        arrays[OFFSET_DELTA.bit] = pa.array(deltas, pa.int32())
    frame = seal(arrays, TIME_MS, TIME_MS, priority=messages[0].level)
    header = unpack_header(frame)._replace(
        base_offset=base, last_offset_delta=deltas[-1], append_time_ms=TIME_MS, leader_epoch=1, body_crc=0
    )
    body = frame[len(pack_header(header)) :]
    header = header._replace(body_crc=body_crc(pack_header(header), body))
    header = FrameHeader._make(header._replace(header_crc=0))
    packed = pack_header(header)
    return bytes(pack_header(header._replace(header_crc=header_crc(packed)))) + body
