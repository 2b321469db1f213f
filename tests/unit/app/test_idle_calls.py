"""Empty appends of idle units travel together, where the other node understands that."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from quiver.app.cluster.node_calls import NodeCalls, serve_node_calls
from quiver.links.channel import RemoteEnd
from quiver.links.peers import Peers
from quiver.links.request import Handlers
from quiver.model.errors import NotLeader
from quiver.replication.messages import Append, Buffer, Greet, Message, Position

UNITS = 20


class Follower:
    """The node that is called, with the number of calls that came over the wire."""

    def __init__(self) -> None:
        self.handled: list[Message] = []
        self.busy: set[int] = set()
        self.is_free = asyncio.Event()
        handlers = Handlers()
        serve_node_calls(handlers, self)
        self.peers = Peers(9, 9, _nobody, handlers)
        self.calls = 0
        self._find = handlers.find
        handlers.find = self._counted  # type: ignore[method-assign]

    def _counted(self, *arguments: object) -> object:
        self.calls += 1
        return self._find(*arguments)  # type: ignore[arg-type]

    async def handle(self, message: Message, payload: Buffer = b"") -> Position:
        self.handled.append(message)
        if message.unit in self.busy:
            await self.is_free.wait()
        if message.unit == 13:
            raise NotLeader(what="worker 13")
        return Position(message.unit, 5)


async def _nobody(target: object) -> RemoteEnd:
    raise OSError(1, "nobody is called")


Connect = Callable[[int], Awaitable[tuple[NodeCalls, Follower]]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    opened: list[Peers] = []

    async def connected(version: int) -> tuple[NodeCalls, Follower]:
        follower, calls = Follower(), NodeCalls()

        async def dial(target: object) -> RemoteEnd:
            near, far = socket.socketpair()
            follower.peers.accept(far, version)
            return RemoteEnd(near, version)

        calls.peers = Peers(0, 0, dial, Handlers())
        opened.extend((calls.peers, follower.peers))
        await calls.call(2, Greet(unit=0, epoch=1, to=0))
        follower.calls = 0
        return calls, follower

    yield connected
    for peers in opened:
        await peers.close(0)


async def idle(calls: NodeCalls) -> list[Position | BaseException]:
    appends = [Append(unit=unit, epoch=1, to=5) for unit in range(UNITS)]
    return await asyncio.gather(*(calls.call(2, each) for each in appends), return_exceptions=True)


def check(found: list[Position | BaseException]) -> None:
    assert isinstance(found.pop(13), NotLeader)
    assert [each.epoch for each in found if isinstance(each, Position)] == [*range(13), *range(14, UNITS)]


@pytest.mark.parametrize(("version", "calls_over_the_wire"), [(1, UNITS), (2, 2)])
async def test_idle_units_share_a_call(connect: Connect, version: int, calls_over_the_wire: int) -> None:
    calls, follower = await connect(version)
    check(await idle(calls))
    assert follower.calls == calls_over_the_wire, "what failed is repeated alone, for its error"


async def test_a_unit_that_is_busy_holds_up_no_other(connect: Connect) -> None:
    calls, follower = await connect(2)
    follower.busy.add(7)
    waiting = {unit: asyncio.ensure_future(calls.call(2, Append(unit=unit, epoch=1, to=5))) for unit in range(10)}
    await asyncio.gather(*(task for unit, task in waiting.items() if unit != 7))
    assert not waiting[7].done()
    follower.is_free.set()
    assert (await waiting[7]).epoch == 7


async def test_one_alone_and_a_message_that_says_something_are_plain_calls(connect: Connect) -> None:
    calls, follower = await connect(2)
    removal = Append(unit=1, epoch=1, to=5, removed=((4, "data"),))
    await asyncio.gather(calls.call(2, Append(unit=0, epoch=1, to=5)), calls.call(2, removal))
    assert follower.calls == 2
    assert removal in follower.handled


async def test_when_the_other_node_is_gone_all_learn_it(connect: Connect) -> None:
    calls, follower = await connect(2)
    follower.busy.update(range(UNITS))
    found = asyncio.ensure_future(idle(calls))
    while len(follower.handled) < UNITS:
        await asyncio.sleep(0)
    calls.peers.forget_node("2")
    assert all(isinstance(each, Exception) for each in await found)
    follower.is_free.set()
