"""The beginning of a link between nodes."""

import asyncio
import socket

import pytest

from quiver.links import handshake
from quiver.links.handshake import Handshake
from quiver.links.versions import FIRST, SPOKEN, LinkVersions, common_version, parse_versions
from quiver.model.errors import NotOwner, ProtocolError, QuiverError, UnsupportedVersion
from quiver.protocol.link_messages import LinkOpen
from quiver.protocol.message import Message
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


def side(secret: str = "known", versions: LinkVersions = SPOKEN) -> Handshake:
    return Handshake("a", secret, SystemRandomness(), versions)


@pytest.mark.parametrize("target", [2, "b"])
async def test_both_know_the_secret(target: int | str) -> None:
    assert await shake(side(), side(), target) == (SPOKEN.newest, (target, SPOKEN.newest))


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


@pytest.mark.parametrize(
    ("ours", "theirs", "common"),
    [((1, 2), (1, 2), 2), ((1, 2), (1, 1), 1), ((1, 1), (1, 2), 1), ((1, 3), (2, 5), 3), ((2, 2), (1, 2), 2)],
)
async def test_the_highest_common_version_is_spoken(
    ours: tuple[int, int], theirs: tuple[int, int], common: int
) -> None:
    caller, called = side(versions=LinkVersions(*ours)), side(versions=LinkVersions(*theirs))
    assert await shake(caller, called) == (common, (2, common))


@pytest.mark.parametrize(("ours", "theirs"), [((1, 1), (2, 3)), ((2, 3), (1, 1)), ((4, 5), (2, 3))])
async def test_without_a_common_version_both_sides_say_which_there_are(
    ours: tuple[int, int], theirs: tuple[int, int]
) -> None:
    for found in await shake(side(versions=LinkVersions(*ours)), side(versions=LinkVersions(*theirs))):
        assert isinstance(found, UnsupportedVersion)
        assert str(LinkVersions(*ours)) in str(found)
        assert str(LinkVersions(*theirs)) in str(found)


async def test_one_that_names_no_versions_speaks_the_first() -> None:
    """Messages of a program that came before versions: as they were sent then."""
    for versions in (SPOKEN, LinkVersions(2, 2)):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            calling = asyncio.ensure_future(side(versions=versions).call(ours, 2))
            nonce = b"n" * 16
            await handshake._send(theirs, FirstChallenge(nonce))
            opening = await handshake._receive(theirs)
            assert isinstance(opening, LinkOpen)
            proof = side()._proof(b"called", nonce, opening.nonce, opening.node, opening.target)
            await handshake._send(theirs, FirstOpened(proof))
            if versions == SPOKEN:
                assert await calling == FIRST.newest
            else:
                with pytest.raises(UnsupportedVersion):
                    await calling


class FirstChallenge(Message, tag=7, frozen=True):
    nonce: bytes


class FirstOpened(Message, tag=9, frozen=True):
    proof: bytes


def test_versions_that_this_program_does_not_speak_are_no_setting() -> None:
    assert parse_versions("1-2") == SPOKEN
    assert parse_versions(" 2 ") == (2, 2)
    for wrong in ("0", "2-1", "1-3", "", "one", "1-", "²"):
        with pytest.raises(ValueError, match=r"version"):
            parse_versions(wrong)
    assert common_version(FIRST, SPOKEN) == 1
