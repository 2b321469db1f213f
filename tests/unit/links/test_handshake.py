"""The beginning of a link between nodes."""

import asyncio
import socket

import pytest

from quiver.links.handshake import Handshake
from quiver.model.errors import NotOwner, ProtocolError, QuiverError
from quiver.system.randomness import SystemRandomness


async def shake(caller: Handshake, called: Handshake, target: int | str = 2) -> tuple[object, object]:
    """What both sides get, returned or raised."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        answered = await asyncio.gather(
            caller.call(ours, target),
            called.answer(theirs, lambda wanted: wanted in (2, "b")),
            return_exceptions=True,
        )
    return answered[0], answered[1]


def side(secret: str = "known") -> Handshake:
    return Handshake("a", secret, SystemRandomness())


@pytest.mark.parametrize("target", [2, "b"])
async def test_both_know_the_secret(target: int | str) -> None:
    assert await shake(side(), side(), target) == (None, target)


async def test_a_worker_that_is_not_here_is_refused() -> None:
    called, answered = await shake(side(), side(), 3)
    assert isinstance(called, NotOwner)
    assert isinstance(answered, NotOwner)


async def test_who_does_not_know_the_secret_is_refused() -> None:
    called, answered = await shake(side("other"), side())
    assert isinstance(called, ProtocolError)
    assert isinstance(answered, ProtocolError)


async def test_what_is_no_link_is_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        ours.send(b"GET / HTTP/1.1\r\n\r\n" * 5)
        with pytest.raises(QuiverError):
            await side().answer(theirs, lambda _: True)
