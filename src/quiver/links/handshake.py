"""How two nodes begin a link over TCP: each proves that it knows the secret of the cluster, and both agree on the
version of what follows.

The proofs do not cover the versions: whoever could change these on the way could change everything after them, too.
"""

import asyncio
import hashlib
import hmac
import socket
from collections.abc import Callable

from quiver.links.outgoing import Target
from quiver.links.versions import SPOKEN, LinkVersions, common_version
from quiver.model.errors import NotOwner, ProtocolError, QuiverError, UnsupportedVersion
from quiver.protocol.link_messages import (
    LinkChallenge,
    LinkFailure,
    LinkMessage,
    LinkOpen,
    LinkOpened,
    decode_link_message,
    link_error,
    link_failure,
)
from quiver.protocol.packet import NO_CORRELATION, PREFIX_BYTES, PacketReader, encode_packet
from quiver.system.randomness import Randomness

HANDSHAKE_SECONDS = 3.0
_NONCE_BYTES = 16
_MOST_BYTES = 4096


class Handshake:
    def __init__(self, node: str, secret: str, randomness: Randomness, versions: LinkVersions = SPOKEN) -> None:
        self._node, self._secret, self._randomness = node, secret.encode(), randomness
        self.versions = versions

    async def call(self, sock: socket.socket, target: Target) -> int:
        """By the one who connects: returns the version that is spoken. Raises OSError, ProtocolError, TimeoutError,
        UnsupportedVersion, or what the other side says (NotOwner)."""
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            challenge = await _receive(sock)
            if not isinstance(challenge, LinkChallenge):
                raise ProtocolError(problem="a link of another node begins with a challenge")
            nonce = self._randomness.token(_NONCE_BYTES)
            proof = self._proof(b"caller", challenge.nonce, nonce, self._node, target)
            await _send(sock, LinkOpen(self._node, target, nonce, proof, *self.versions))
            opened = await _receive(sock)
        if isinstance(opened, LinkFailure):
            raise link_error(opened)
        expected = self._proof(b"called", challenge.nonce, nonce, self._node, target)
        if not isinstance(opened, LinkOpened) or not hmac.compare_digest(opened.proof, expected):
            raise ProtocolError(problem="the other side does not know the secret of this cluster")
        if not self.versions.oldest <= opened.version <= self.versions.newest:
            raise self._no_common("the other node", LinkVersions(challenge.oldest, challenge.newest))
        return opened.version

    async def answer(self, sock: socket.socket, runs: Callable[[Target], bool]) -> tuple[Target, int]:
        """By the one who is connected to: returns whom the caller wants, and the version that is spoken. Raises
        OSError, TimeoutError and QuiverError; the caller has been told."""
        nonce = self._randomness.token(_NONCE_BYTES)
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await _send(sock, LinkChallenge(nonce, *self.versions))
            opening = await _receive(sock)
            try:
                if not isinstance(opening, LinkOpen):
                    raise ProtocolError(problem="a link of another node begins with a challenge")
                expected = self._proof(b"caller", nonce, opening.nonce, opening.node, opening.target)
                if not hmac.compare_digest(opening.proof, expected):
                    raise ProtocolError(problem="the caller does not know the secret of this cluster")
                theirs = LinkVersions(opening.oldest, opening.newest)
                version = common_version(self.versions, theirs)
                if version is None:
                    raise self._no_common(f"node {opening.node}", theirs)
                if not runs(opening.target):
                    raise NotOwner(worker=opening.target)
            except QuiverError as error:
                await _send(sock, link_failure(error))
                raise
            proof = self._proof(b"called", nonce, opening.nonce, opening.node, opening.target)
            await _send(sock, LinkOpened(proof, version))
        return opening.target, version

    def _no_common(self, other: str, theirs: LinkVersions) -> UnsupportedVersion:
        problem = (
            f"{other} speaks version {theirs} of the protocol between nodes, node {self._node} speaks {self.versions}"
        )
        return UnsupportedVersion(problem=problem)

    def _proof(self, side: bytes, nonce: bytes, other: bytes, node: str, target: Target) -> bytes:
        said = b"|".join((side, nonce.hex().encode(), other.hex().encode(), node.encode(), repr(target).encode()))
        return hmac.new(self._secret, said, hashlib.sha256).digest()


async def _send(sock: socket.socket, message: LinkMessage) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, encode_packet(NO_CORRELATION, message))


async def _receive(sock: socket.socket) -> LinkMessage:
    """Reads one packet and not a byte more: what follows is for whoever takes the socket."""
    reader = PacketReader(_MOST_BYTES)
    wanted = PREFIX_BYTES
    data = b""
    loop = asyncio.get_running_loop()
    while len(data) < wanted:
        part = await loop.sock_recv(sock, wanted - len(data))
        if not part:
            raise ConnectionResetError("the other side has closed the connection")
        data += part
        if len(data) == PREFIX_BYTES:
            wanted = 4 + int.from_bytes(data[:4], "little")
            if not PREFIX_BYTES < wanted <= _MOST_BYTES:
                raise ProtocolError(problem="a link begins with a message of an unusual size")
    reader.get_buffer()[: len(data)] = data
    [packet] = reader.received(len(data))
    return decode_link_message(packet.message_bytes)
