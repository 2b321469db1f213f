"""A TCP proxy in front of the native port that repeats, swaps, holds back and cuts off requests.

It knows where requests begin and end and of which kind they are, and nothing else of the protocol. Each request of
the caller's `kinds` (produce requests, if nothing is said) gets one Fault from the caller's `choose`; others pass.
"""

import contextlib
import enum
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import BinaryIO

from quiver.model.errors import ProtocolError
from quiver.protocol.messages import Message, Produce
from quiver.protocol.packet import PREFIX_BYTES, decode_request
from quiver.protocol.preface import PREFACE

_PREFIX = struct.Struct("<III")
SWAP_SECONDS = 0.05


class Fault(enum.Enum):
    PASS = "pass"
    TWICE = "twice"
    """The request goes to the broker two times on its connection."""
    SWAP = "swap"
    """The request goes behind the next one (or alone, when none follows for a moment)."""
    CUT_BEFORE = "cut before"
    """The connection breaks; the broker never sees the request."""
    CUT_AFTER = "cut after"
    """The broker gets the request, the connection breaks before its answer."""
    LATE = "late"
    """The connection breaks for the client; the broker gets the request when its repeat has long been answered."""


class TcpProxy:
    """Listens on `address` and passes connections on to `target` (host:port).

    `requests` are those that got a fault or might have, as they came. Those with the fault LATE are delivered after
    `late_after` further ones.
    """

    def __init__(
        self,
        target: str,
        choose: Callable[[int], Fault],
        *,
        late_after: int = 5,
        kinds: tuple[type[Message], ...] = (Produce,),
    ) -> None:
        self._target = target
        self._choose = choose
        self.kinds = kinds
        self._late_after = late_after
        self._lock = threading.Lock()
        self._late: list[tuple[int, _Link, bytes]] = []
        self._links: list[_Link] = []
        self.count = 0
        self.requests: list[bytes] = []
        self.client_port = 0
        """Of the connection whose request `choose` is about."""
        self.done: dict[Fault, int] = dict.fromkeys(Fault, 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._accepting = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._accepting.start()

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def decide(self, link: "_Link", packet: bytes) -> Fault:
        """Counts a request and says what happens to it; also delivers the late ones that are due."""
        with self._lock:
            self.count += 1
            self.requests.append(packet)
            self.client_port = link.client_port
            fault = self._choose(self.count)
            self.done[fault] += 1
            if fault is Fault.LATE:
                self._late.append((self.count + self._late_after, link, packet))
            due = [late for late in self._late if late[0] <= self.count]
            self._late = [late for late in self._late if late[0] > self.count]
        for _, late_link, late_packet in due:
            late_link.forward(late_packet)
        return fault

    def deliver_late(self) -> None:
        """Gives the broker whatever is still held back."""
        with self._lock:
            due, self._late = self._late, []
        for _, link, packet in due:
            link.forward(packet)

    def close(self) -> None:
        # shutdown wakes the accept call; close alone does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in list(self._links):
            link.close()
        self._accepting.join()

    def __enter__(self) -> "TcpProxy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        host, port = self._target.rsplit(":", 1)
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                upstream = socket.create_connection((host, int(port)))
            except OSError:
                client.close()
                continue
            link = _Link(self, client, upstream)
            self._links.append(link)
            link.start()


class _Link:
    """One client connection and the broker connection behind it, with a thread for each direction."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, upstream: socket.socket) -> None:
        self._proxy = proxy
        self._client, self._upstream = client, upstream
        self.client_port: int = client.getpeername()[1]
        self._sending = threading.Lock()
        self._held: bytes | None = None
        self._timer: threading.Timer | None = None
        for end in (client, upstream):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        for run in (self._pass_requests, self._pass_answers):
            threading.Thread(target=run, name="proxy link", daemon=True).start()

    def forward(self, data: bytes) -> None:
        """To the broker; nothing happens when that connection is gone."""
        with self._sending, contextlib.suppress(OSError):
            self._upstream.sendall(data)

    def close(self) -> None:
        _shut(self._client)
        _shut(self._upstream)

    def _pass_requests(self) -> None:
        stream = self._client.makefile("rb")
        with contextlib.suppress(OSError, ValueError):
            self.forward(stream.read(len(PREFACE)))
            while packet := _read_packet(stream):
                if not isinstance(request_in(packet), self._proxy.kinds):
                    self.forward(packet)
                elif not self._apply(self._proxy.decide(self, packet), packet):
                    return
        self._release()
        _shut(self._upstream)

    def _apply(self, fault: Fault, packet: bytes) -> bool:
        """Does what the fault says; False when the client's connection is over."""
        if fault is Fault.SWAP and self._held is None:
            self._hold(packet)
            return True
        if fault in (Fault.PASS, Fault.TWICE, Fault.SWAP):
            self.forward(packet * (2 if fault is Fault.TWICE else 1))
            self._release()
            return True
        # The upstream side stays open: a request that was passed on is carried out, a late one has a way to go.
        _shut(self._client)
        self._release()
        if fault is Fault.CUT_AFTER:
            self.forward(packet)
        return False

    def _hold(self, packet: bytes) -> None:
        with self._sending:
            self._held = packet
        self._timer = threading.Timer(SWAP_SECONDS, self._release)
        self._timer.daemon = True
        self._timer.start()

    def _release(self) -> None:
        with self._sending:
            held, self._held = self._held, None
        if held is not None:
            self.forward(held)

    def _pass_answers(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._upstream.recv(1 << 16):
                # After a cut the answers go nowhere, but they are still read so that the broker is not held up.
                with contextlib.suppress(OSError):
                    self._client.sendall(data)
        _shut(self._client)


def _read_packet(stream: BinaryIO) -> bytes:
    start = stream.read(4)
    return start + stream.read(int.from_bytes(start, "little")) if len(start) == 4 else b""


def request_in(packet: bytes) -> Message | None:
    """What a packet asks for; None if that cannot be read."""
    if len(packet) < PREFIX_BYTES:
        return None
    message_bytes = _PREFIX.unpack_from(packet)[2]
    try:
        return decode_request(packet[PREFIX_BYTES : PREFIX_BYTES + message_bytes])
    except ProtocolError:
        return None


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
