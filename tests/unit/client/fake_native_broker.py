"""A broker of one file for tests of the SDK: partitions in memory, and faults where a test wants them."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Literal

from quiver.model.errors import QuiverError, StalePartitionCount, TopicNotFound
from quiver.model.limits import MIB, Limits
from quiver.partition.producers import ProducerTable
from quiver.protocol.messages import (
    ACKS_NONE,
    Done,
    Failure,
    Fetch,
    Fetched,
    FetchedPart,
    FoundOffset,
    GetMetadata,
    Hello,
    InitProducer,
    ListOffsets,
    Metadata,
    Offsets,
    Produce,
    Produced,
    ProducerIdentity,
    Request,
    Response,
    TopicInfo,
    Welcome,
)
from quiver.protocol.packet import PacketReader, decode_request, encode_packet
from quiver.protocol.transaction_messages import InitTransactions
from quiver.records.check import check_frame
from quiver.records.header import HEADER_BYTES, stamp
from quiver.records.read import open_frame, split_frames

Fault = Literal["drop", "drop after", "ignore"] | Failure | None
"""Close the connection before or after doing what was asked, never answer, refuse, or nothing special."""


class FakePartition:
    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.end = 0
        self.producers = ProducerTable()

    def append(self, frame: memoryview, limits: Limits) -> Produced:
        header = check_frame(frame, limits)
        repeat = self.producers.find_repeat(header)
        if repeat is not None:
            return Produced(repeat.base_offset, repeat.append_time_ms, True)
        stamped = stamp(frame, header, base_offset=self.end, leader_epoch=1, append_time_ms=1_700_000_000_000)
        self.producers.record(stamped.header)
        self.frames.append(bytes(stamped.header_bytes) + bytes(stamped.body))
        self.end += header.record_count
        return Produced(stamped.header.base_offset, 1_700_000_000_000)

    def read(self, offset: int) -> bytes:
        return b"".join(f for f in self.frames if open_frame(f).header.next_offset > offset)

    def values(self) -> list[bytes | None]:
        return [value for frame in self.frames for value in open_frame(frame).values()]


class FakeTopic:
    def __init__(self, topic_id: int, partitions: int) -> None:
        self.id = topic_id
        self.partitions = [FakePartition() for _ in range(partitions)]

    def values(self) -> list[bytes | None]:
        return [value for partition in self.partitions for value in partition.values()]


class FakeBroker:
    """Listens on a port of its own. `fault` is asked about every request, in the order they come in."""

    def __init__(self, **topics: int) -> None:
        self.limits = Limits()
        self.topics: dict[str, FakeTopic] = {}
        for name, partitions in topics.items():
            self.create(name, partitions)
        self.fault: Callable[[Request], Fault] = lambda request: None
        self.requests: list[Request] = []
        self._next_producer = 100
        self._mutex = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "FakeBroker":
        return self

    def __exit__(self, *_: object) -> None:
        for sock in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def create(self, name: str, partitions: int) -> None:
        self.topics[name] = FakeTopic(max((t.id for t in self.topics.values()), default=0) + 1, partitions)

    def recreate(self, name: str) -> None:
        known = self.topics.pop(name)
        self.topics[name] = FakeTopic(known.id + 100, len(known.partitions))

    def grow(self, name: str, partitions: int) -> None:
        topic = self.topics[name]
        topic.partitions += [FakePartition() for _ in range(partitions - len(topic.partitions))]

    def disconnect(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def requests_of(self, kind: type[Request]) -> list[Request]:
        return [request for request in self.requests if isinstance(request, kind)]

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        reader = PacketReader(64 * MIB, expect_preface=True)
        try:
            while count := sock.recv_into(reader.get_buffer()):
                for correlation, message, payload in reader.received(count):
                    if not self._take(sock, correlation, decode_request(message), payload):
                        sock.shutdown(socket.SHUT_RDWR)
                        return
        except OSError:
            pass
        finally:
            sock.close()

    def _take(self, sock: socket.socket, correlation: int, request: Request, payload: memoryview) -> bool:
        with self._mutex:
            self.requests.append(request)
            fault = self.fault(request)
            if fault == "drop":
                return False
            if fault == "ignore":
                return True
            if isinstance(fault, Failure):
                answer: Response = fault
                body = b""
            else:
                try:
                    answer, body = self._answer(request, payload)
                except QuiverError as error:
                    answer, body = Failure(error.code, error.message, error.retryable), b""
            if fault == "drop after":
                return False
            if not (isinstance(request, Produce) and request.acks == ACKS_NONE):
                sock.sendall(encode_packet(correlation, answer, len(body)) + body)
            return True

    def _answer(self, request: Request, payload: memoryview) -> tuple[Response, bytes]:
        match request:
            case Hello():
                return Welcome(1, "fake", ["none"], ["arrow"], 64 * MIB, 16 * MIB, MIB), b""
            case GetMetadata(names):
                wanted = self.topics if names is None else names
                found = [self._info(name) for name in wanted if name in self.topics]
                return Metadata(found, [name for name in wanted if name not in self.topics]), b""
            case InitProducer(producer_id, epoch):
                if producer_id >= 0:
                    return ProducerIdentity(producer_id, epoch + 1), b""
                self._next_producer += 1
                return ProducerIdentity(self._next_producer, 0), b""
            case InitTransactions():
                self._next_producer += 1
                return ProducerIdentity(self._next_producer, 0), b""
            case Produce():
                return self._produce(request, payload), b""
            case ListOffsets(parts):
                found = []
                for part in parts:
                    end = self._topic(part.topic_id).partitions[part.partition].end
                    found.append(FoundOffset(0 if part.position.kind == "earliest" else end))
                return Offsets(found), b""
            case Fetch():
                return self._fetch(request)
            case _:
                return Done(), b""

    def _info(self, name: str) -> TopicInfo:
        topic = self.topics[name]
        return TopicInfo(topic.id, name, len(topic.partitions), self.limits.message_bytes)

    def _topic(self, topic_id: int) -> FakeTopic:
        for topic in self.topics.values():
            if topic.id == topic_id:
                return topic
        raise TopicNotFound(topic=str(topic_id))

    def _produce(self, request: Produce, payload: memoryview) -> Produced:
        topic = self._topic(request.topic_id)
        if request.partition_count and request.partition_count != len(topic.partitions):
            raise StalePartitionCount(topic="it", count=len(topic.partitions))
        return topic.partitions[request.partition].append(payload, self.limits)

    def _fetch(self, request: Fetch) -> tuple[Fetched, bytes]:
        parts, body = [], b""
        for part in request.parts:
            partition = self._topic(part.topic_id).partitions[part.partition]
            data = partition.read(part.offset) if len(body) < request.max_bytes else b""
            if request.headers_only:
                data = b"".join(data[place : place + HEADER_BYTES] for place, _ in split_frames(data))
            end, only = partition.end, request.headers_only
            parts.append(FetchedPart(part.topic_id, part.partition, len(data), 0, end, end, 1, [], headers_only=only))
            body += data
        return Fetched(parts), body
