"""Calls between workers over real sockets, in one loop."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quiver.links import outgoing
from quiver.links.channel import LocalEnd, RemoteEnd
from quiver.links.incoming import MetadataView
from quiver.links.incoming_calls import OpenGate
from quiver.links.peers import Peers
from quiver.links.request import Handlers, PeerRequest, Reply
from quiver.links.versions import SPOKEN
from quiver.model.errors import (
    Overloaded,
    ProtocolError,
    QuiverError,
    ShuttingDown,
    TopicNotFound,
    UnsupportedVersion,
    WorkerUnavailable,
)


class Sort(PeerRequest[list[int]], frozen=True):
    capability, method = "tests", "sort"
    numbers: list[int]


class Wait(PeerRequest[str], frozen=True):
    capability, method, only_waits = "tests", "wait", True


class Note(PeerRequest[None], frozen=True):
    capability, method = "tests", "note"
    number: int


class Fail(PeerRequest[None], frozen=True):
    capability, method = "tests", "fail"
    how: str


class Unknown(PeerRequest[None], frozen=True):
    capability, method = "tests", "unknown"


class Later(PeerRequest[str], frozen=True):
    capability, method, since = "tests", "later", 2


class OtherWorker:
    """What worker 1 does for worker 0."""

    def __init__(self) -> None:
        self.notes: list[int] = []
        self.waiting = asyncio.Event()
        self.released = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.ignores_cancellation = False
        self.handlers = Handlers()
        for kind, handle in (
            (Sort, self.sort),
            (Wait, self.wait),
            (Note, self.note),
            (Fail, self.fail),
            (Later, self.later),
        ):
            self.handlers.add(kind, handle)

    async def sort(self, request: Sort, payload: memoryview) -> Reply[list[int]]:
        return Reply(sorted(request.numbers), (payload, bytes(payload)))

    async def later(self, request: Later, payload: memoryview) -> Reply[str]:
        return Reply("done")

    async def wait(self, request: Wait, payload: memoryview) -> Reply[str]:
        self.waiting.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            if not self.ignores_cancellation:
                raise
        return Reply("leased")

    async def note(self, request: Note, payload: memoryview) -> Reply[None]:
        self.notes.append(request.number)
        await asyncio.sleep(0)
        return Reply(None)

    async def fail(self, request: Fail, payload: memoryview) -> Reply[None]:
        if request.how == "known":
            raise TopicNotFound(topic="orders", owner=3, path={"a": [1]})
        if request.how == "strange":
            error = QuiverError("of a later version", when=5)
            error.code, error.retryable = "later", True
            raise error
        if request.how == "stopped":
            stopped = asyncio.get_running_loop().create_future()
            stopped.cancel()
            await stopped
        raise KeyError("a secret")


class View:
    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.changed = asyncio.Event()

    async def reached(self, revision: int) -> None:
        while self.revision < revision:
            self.changed.clear()
            await self.changed.wait()


class Pair:
    """Worker 0 calls worker 1."""

    def __init__(
        self, view: MetadataView | None = None, other_view: MetadataView | None = None, *, is_direct: bool = False
    ) -> None:
        self.other = OtherWorker()
        self.is_direct = is_direct
        self.dials = 0
        self.refused = 0
        self.here = Peers(0, 2, self.dial, Handlers(), view)
        self.there = Peers(1, 2, self.dial, self.other.handlers, other_view)

    async def dial(self, worker: int) -> socket.socket | LocalEnd:
        self.dials += 1
        if self.refused:
            self.refused -= 1
            raise OSError(11, "too much waits")
        if self.is_direct:
            return self.there.local_end
        ours, theirs = socket.socketpair()
        self.there.accept(theirs)
        return ours

    async def break_links(self) -> None:
        await self.there.close(0)
        self.there = Peers(1, 2, self.dial, self.other.handlers)

    async def close(self) -> None:
        await self.here.close()
        await self.there.close()


@pytest.fixture(params=["socket", "direct"])
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    found = Pair(is_direct=request.param == "direct")
    yield found
    await found.close()


async def test_values_and_payloads_arrive(pair: Pair) -> None:
    large = bytes(range(256)) * 20_000
    reply = await pair.here.call(1, Sort([3, 1, 2]), (b"", large, memoryview(b"end")))
    assert reply.value == [1, 2, 3]
    assert bytes(reply.payload[0]) == (large + b"end") * 2
    assert (await pair.here.call(1, Sort([]))).payload == ()
    assert pair.dials == 1


async def test_calls_are_begun_in_order(pair: Pair) -> None:
    futures = []
    for number in range(0, 300, 3):
        futures.append(pair.here.begin(1, Note(number), (bytes(number * 10),)))
        pair.here.tell(1, Note(number + 1))
        futures.append(pair.here.begin(1, Note(number + 2)))
    await asyncio.gather(*futures)
    assert pair.other.notes == list(range(300))


async def test_errors_come_back_as_they_were_raised(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TopicNotFound) as known:
        await pair.here.call(1, Fail("known"))
    assert known.value.message == TopicNotFound(topic="orders").message
    assert known.value.details == {"topic": "orders", "owner": 3, "path": {"a": [1]}}
    with pytest.raises(QuiverError, match="of a later version") as strange:
        await pair.here.call(1, Fail("strange"))
    assert (strange.value.code, strange.value.retryable, strange.value.details) == ("later", True, {"when": 5})
    with pytest.raises(QuiverError) as unexpected:
        await pair.here.call(1, Fail("unexpected"))
    assert unexpected.value.code == "internal"
    assert "secret" not in unexpected.value.message
    assert "a call of worker 0 failed unexpectedly" in caplog.text
    with pytest.raises(ShuttingDown):
        await pair.here.call(1, Fail("stopped"))
    with pytest.raises(ProtocolError, match=r"no call tests\.unknown"):
        await pair.here.call(1, Unknown())
    assert pair.dials == 1, "the link goes on"


async def test_a_caller_that_is_cancelled_ends_the_call(pair: Pair) -> None:
    call = asyncio.ensure_future(pair.here.call(1, Wait()))
    await pair.other.waiting.wait()
    call.cancel()
    await pair.other.cancelled.wait()
    assert (await pair.here.call(1, Sort([1]))).value == [1]


async def test_a_result_that_comes_too_late_is_not_lost(pair: Pair) -> None:
    pair.other.ignores_cancellation = True
    late: asyncio.Future[Reply[Any]] = asyncio.get_running_loop().create_future()
    call = asyncio.ensure_future(pair.here.call(1, Wait(), on_late=late.set_result))
    await pair.other.waiting.wait()
    call.cancel()
    assert (await late).value == "leased"


async def test_what_waits_fails_when_the_link_breaks_and_the_next_call_connects_again(pair: Pair) -> None:
    call = asyncio.ensure_future(pair.here.call(1, Wait()))
    await pair.other.waiting.wait()
    await pair.break_links()
    with pytest.raises(QuiverError) as lost:
        await call
    assert lost.value.retryable
    await pair.other.cancelled.wait()
    pair.refused = 2
    with pytest.raises(WorkerUnavailable, match="worker 1 of the broker cannot be reached"):
        await pair.here.call(1, Sort([1]))
    while True:
        try:
            assert (await pair.here.call(1, Sort([1]))).value == [1]
            break
        except WorkerUnavailable:
            continue


async def test_bytes_on_their_way_are_bounded(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "REQUEST_BYTES", 1000)
    first = pair.here.begin(1, Wait(), (bytes(2000),))
    with pytest.raises(Overloaded):
        pair.here.begin(1, Sort([1]))
    second = asyncio.ensure_future(pair.here.call(1, Sort([1])))
    await pair.other.waiting.wait()
    assert not second.done()
    pair.other.released.set()
    assert (await first).value == "leased"
    assert (await second).value == [1]


async def test_a_call_waits_until_the_other_knows_as_much() -> None:
    view, other_view = View(7), View(3)
    pair = Pair(view, other_view)
    calls = [pair.here.begin(1, Note(1)), pair.here.begin(1, Note(2))]
    view.revision = 5  # whatever comes later stays in order
    calls.append(pair.here.begin(1, Note(3)))
    other_view.revision = 5
    while not pair.dials:
        await asyncio.sleep(0)
    other_view.changed.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert pair.other.notes == []
    other_view.revision = 7
    other_view.changed.set()
    await asyncio.gather(*calls)
    assert pair.other.notes == [1, 2, 3]
    await pair.close()


@pytest.mark.parametrize(
    ("ours", "theirs", "found"), [(2, 2, "done"), (1, 1, UnsupportedVersion), (2, 1, ProtocolError)]
)
async def test_a_call_that_a_version_does_not_have(ours: int, theirs: int, found: str | type[QuiverError]) -> None:
    """`theirs` lower than ours: a node that does not say the truth gets an error, too."""
    other = OtherWorker()
    there = Peers(1, 2, _no_dial, other.handlers)

    async def dial(worker: int) -> RemoteEnd:
        near, far = socket.socketpair()
        there.accept(far, theirs)
        return RemoteEnd(near, ours)

    here = Peers(0, 2, dial, Handlers())
    try:
        for _ in range(2):  # before it is connected, and after
            if isinstance(found, str):
                assert (await here.call(1, Later())).value == found
            else:
                with pytest.raises(found, match=r"tests\.later"):
                    await here.call(1, Later())
            here.tell(1, Later())
            assert (await here.call(1, Sort([2, 1]))).value == [1, 2], "the link goes on"
        link = here.links_to(1)
        assert link is not None
        assert link.in_flight == link._call_bytes == 0
    finally:
        await here.close()
        await there.close()


async def _no_dial(worker: int) -> LocalEnd:
    raise OSError(1, "nobody is called")


class Nodes:
    """Worker 0 calls worker 1, which may be at one node or another."""

    def __init__(self) -> None:
        self.others = {name: OtherWorker() for name in ("a", "b")}
        self.at = {name: Peers(1, 2, self.dial, other.handlers) for name, other in self.others.items()}
        for name, peers in self.at.items():
            peers.node = name
        self.owner = "a"
        self.here = Peers(0, 2, self.dial, Handlers(), gate=OpenGate())

    async def dial(self, worker: int) -> LocalEnd | RemoteEnd:
        if self.owner == "a":
            return self.at["a"].local_end
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.at[self.owner].accept(theirs)
        return RemoteEnd(ours, SPOKEN.newest, self.owner)

    def redirect(self, owner: str, nodes: list[str]) -> None:
        link = self.here.links_to(1)
        assert link is not None
        link.redirect(owner, nodes)

    async def close(self) -> None:
        await asyncio.gather(self.here.close(), *(peers.close() for peers in self.at.values()))


@pytest.mark.parametrize("owner", ["a", "b"])
async def test_a_link_that_is_at_the_owner_already_stays(owner: str) -> None:
    """Calls may reach a new owner before the caller's node takes notice that the owner has changed."""
    nodes = Nodes()
    nodes.owner = owner
    call = asyncio.ensure_future(nodes.here.call(1, Wait()))
    await nodes.others[owner].waiting.wait()
    nodes.redirect(owner, [])
    await asyncio.sleep(0)
    assert not call.done()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await nodes.close()


async def test_calls_to_a_node_that_is_gone_fail_and_those_to_one_that_is_there_go_on() -> None:
    nodes = Nodes()
    first = asyncio.ensure_future(nodes.here.call(1, Wait()))
    await nodes.others["a"].waiting.wait()
    nodes.owner = "b"
    nodes.redirect("b", ["a", "b"])
    second = asyncio.ensure_future(nodes.here.call(1, Wait()))
    await nodes.others["b"].waiting.wait()
    assert not first.done()
    nodes.redirect("b", ["b"])
    with pytest.raises(WorkerUnavailable, match="gone with its broker"):
        await first
    assert not second.done()
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await nodes.close()
