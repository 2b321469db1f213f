"""A bare connection to the native port: packets in and out, with nothing of the SDK's care."""

import socket
from types import TracebackType

from quiver.protocol.messages import CODECS, ENCODINGS, PROTOCOL_VERSION, Hello, Message, Response
from quiver.protocol.packet import Packet, PacketReader, decode_response, encode_packet
from quiver.protocol.preface import PREFACE

ANSWER_SECONDS = 20.0
_MAX_PACKET_BYTES = 256 * 1024 * 1024


class NativeWire:
    """Connects and greets; then sends what it is told to."""

    def __init__(self, address: str, *, greet: bool = True) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = PacketReader(_MAX_PACKET_BYTES)
        self._packets: list[Packet] = []
        if greet:
            self.socket.sendall(PREFACE)
            self.ask(Hello([PROTOCOL_VERSION], list(CODECS), list(ENCODINGS), "test"))

    def ask(self, message: Message, payload: bytes = b"", *, correlation: int = 1) -> Response:
        """Sends a request and returns the next answer that comes."""
        self.send(message, payload, correlation=correlation)
        return self.answer()

    def send(self, message: Message, payload: bytes = b"", *, correlation: int = 1) -> None:
        self.socket.sendall(encode_packet(correlation, message, len(payload)) + payload)

    def answer(self) -> Response:
        """The next answer; ConnectionError when the broker closes the connection instead."""
        return decode_response(self.packet().message_bytes)

    def packet(self) -> Packet:
        while not self._packets:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._packets = self._reader.feed(data)
        return self._packets.pop(0)

    def __enter__(self) -> "NativeWire":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()
