"""One HTTP connection to etcd: a request, then its response, whole or chunk by chunk as it comes."""

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple, Self

from quiver.coordination.etcd.address import Endpoint, EtcdAddress
from quiver.model.limits import KIB
from quiver.system.network import Network

_HEAD_BYTES = 64 * KIB


class NoHttp(Exception):
    """What came is not an HTTP response."""


class Response(NamedTuple):
    status: int
    body: bytes


class HttpConnection:
    """Raises OSError, EOFError or NoHttp; it cannot be used after that. Calls take turns."""

    def __init__(self, endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.endpoint = endpoint
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, endpoint: Endpoint, address: EtcdAddress, network: Network, timeout: float) -> Self:
        sock = await network.dial(endpoint.address or endpoint.host, endpoint.port, timeout)
        try:
            async with asyncio.timeout(timeout):
                name = endpoint.host if address.tls else None
                reader, writer = await asyncio.open_connection(
                    sock=sock, ssl=address.tls, server_hostname=name, limit=_HEAD_BYTES
                )
        except BaseException:
            sock.close()
            raise
        return cls(endpoint, reader, writer)

    @property
    def is_open(self) -> bool:
        """False when the other side has closed it, as far as is known."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.transport.abort()

    async def post(self, path: str, body: bytes, token: str) -> Response:
        self._send(path, body, token)
        status, headers = await self._read_head()
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return Response(status, await self._reader.readexactly(_number(headers.get("content-length"), 10)))
        return Response(status, b"".join([chunk async for chunk in self._chunks()]))

    async def stream(self, path: str, body: bytes, token: str) -> AsyncGenerator[bytes, None]:
        """The lines of a response that need not end. A response of an error is its only line."""
        self._send(path, body, token)
        _, headers = await self._read_head()
        if headers.get("transfer-encoding", "").lower() != "chunked":
            yield await self._reader.readexactly(_number(headers.get("content-length"), 10))
            return
        begun: list[bytes] = []
        async for chunk in self._chunks():
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join([*begun, line])
                begun = []
            begun += [rest] if rest else []
        if begun:
            yield b"".join(begun)

    def _send(self, path: str, body: bytes, token: str) -> None:
        headers = [
            f"POST {path} HTTP/1.1",
            f"Host: {self.endpoint.authority}",
            "Content-Type: application/json",
            "Grpc-Metadata-hasleader: true",  # a member that lost its cluster ends a watch instead of waiting
            f"Content-Length: {len(body)}",
        ]
        if token:
            headers.append(f"Authorization: {token}")
        self._writer.write("\r\n".join([*headers, "\r\n"]).encode() + body)

    async def _read_head(self) -> tuple[int, dict[str, str]]:
        lines = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1."):
            raise NoHttp(f"it begins with {lines[0][:40]!r}")
        pairs = (line.partition(":") for line in lines[1:] if line)
        return _number(words[1], 10), {name.lower(): value.strip() for name, _, value in pairs}

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        while size := _number((await self._until(b"\r\n")).split(b";")[0].decode("latin-1").strip(), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        while await self._until(b"\r\n") != b"\r\n":
            pass

    async def _until(self, end: bytes) -> bytes:
        try:
            return await self._reader.readuntil(end)
        except asyncio.LimitOverrunError as error:
            raise NoHttp("it has no end of a line where there must be one") from error


def _number(text: str | None, radix: int) -> int:
    try:
        return int(text or "", radix)
    except ValueError:
        raise NoHttp(f"{text!r} is no number") from None
