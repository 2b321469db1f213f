"""What the relay of a cluster under test does to connections."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from blackbox.cluster.chaos.relays import RelayProcess

_SHORT_SECONDS = 0.2
"""Too short a time would only let a test pass."""


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[RelayProcess]:
    process = RelayProcess(tmp_path / "relay.log")
    yield process
    process.close()


@pytest.fixture
def ends(relay: RelayProcess) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Of one connection from `a` to `b`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = relay.listen([listener.getsockname()[1]], "a", "b")
        with socket.create_connection(("127.0.0.1", port), timeout=30) as near:
            far, _ = listener.accept()
            with far:
                far.settimeout(30)
                yield near, far


def test_one_direction_is_cut_and_comes_late(relay: RelayProcess, ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    relay.cut([("a", "b")])
    near.sendall(b"late")
    far.sendall(b"there")
    assert near.recv(10) == b"there"
    far.settimeout(_SHORT_SECONDS)
    with pytest.raises(TimeoutError):
        far.recv(10)
    far.settimeout(30)
    assert relay.heal() == 4
    assert far.recv(10) == b"late"


def test_what_was_cut_breaks(relay: RelayProcess, ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    relay.cut([("a", "b")])
    near.sendall(b"lost")
    far.settimeout(_SHORT_SECONDS)
    with pytest.raises(TimeoutError):
        far.recv(10)
    far.settimeout(30)
    relay.heal(breaks=True)
    assert _ending(far) in ("closed", "broken")


def _ending(end: socket.socket) -> str:
    try:
        return "data" if end.recv(10) else "closed"
    except ConnectionError:
        return "broken"


def test_the_first_target_that_listens_is_taken(relay: RelayProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = relay.listen([nobody.getsockname()[1], listener.getsockname()[1]], "a", "b")
        with socket.create_connection(("127.0.0.1", port), timeout=30) as near:
            far, _ = listener.accept()
            with far:
                near.sendall(b"x")
                assert far.recv(1) == b"x"
