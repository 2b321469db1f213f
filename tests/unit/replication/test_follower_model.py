"""Where followers cut their logs, against the logs themselves."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from quiver.replication.epoch_ends import last_epoch, last_epoch_up_to
from quiver.replication.follower import EpochEnd, Follower, cut
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import LogOptions
from unit.log.frames import frame_at

Epochs = list[int]
"""A log: the epoch of each offset."""


def ends(log: Epochs, at_most: int) -> EpochEnd:
    """The largest epoch of a log up to one, and where it ends."""
    below = [epoch for epoch in log if epoch <= at_most]
    return EpochEnd(below[-1] if below else -1, len(below))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Epochs, Epochs]:
    """Two replicas after a few epochs: in each, one of the logs leads, others take over a beginning of its log."""
    logs: list[Epochs] = [[], [], []]
    for epoch in range(1, draw(st.integers(1, 6))):
        leader = draw(st.integers(0, 2))
        logs[leader] = logs[leader] + [epoch] * draw(st.integers(0, 4))
        for follower in range(3):
            if follower != leader and draw(st.booleans()):
                common = agreement(logs[leader], logs[follower])
                taken = draw(st.integers(common, len(logs[leader])))
                logs[follower] = logs[leader][:taken]
    return logs[0], logs[1]


def agreement(one: Epochs, other: Epochs) -> int:
    """How far two logs are the same: the same epoch at an offset means the same frame."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


@given(histories())
def test_a_follower_is_cut_exactly_where_it_leaves_the_leader(logs: tuple[Epochs, Epochs]) -> None:
    leader, follower = logs
    wanted = follower[: agreement(leader, follower)]
    for _ in range(10):
        own = ends(follower, 99)
        theirs = ends(leader, own.epoch)
        found = cut(own, ends(follower, theirs.epoch), theirs)
        follower = follower[: found.offset]
        if found.is_aligned:
            break
    assert follower == wanted


@given(st.lists(st.integers(0, 6), max_size=12).map(sorted), st.integers(0, 8))
def test_the_last_epoch_of_a_log(epochs: Epochs, at_most: int) -> None:
    async def found() -> EpochEnd:
        storage = MemoryStorage()
        log = await storage.open_log("x", LogOptions())
        for offset, epoch in enumerate(epochs):
            await log.append([frame_at(offset, epoch=epoch)])
        assert last_epoch(log) == ends(epochs, 99)
        return await last_epoch_up_to(log, at_most)

    assert asyncio.run(found()) == ends(epochs, at_most)


def test_what_a_follower_refuses() -> None:
    follower = Follower()
    assert follower.promise(4)
    assert follower.verdict(3, 1, 0, 0) == "stale"
    assert follower.verdict(4, 1, 0, 0) == "align"
    follower.align(3, 1)
    assert follower.verdict(4, 1, 0, 0) == "align"
    follower.align(4, 1)
    assert follower.verdict(4, 2, 0, 0) == "align"
    assert follower.verdict(4, 1, 0, 0) == "take"
    assert follower.verdict(4, 1, 5, 4) == "gap"
    assert follower.verdict(5, 1, 0, 0) == "align"
    assert not follower.promise(4)
