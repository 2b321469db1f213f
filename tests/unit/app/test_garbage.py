"""Full garbage collections stay short: what lives long is not looked at again and again."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from quiver.app import garbage
from quiver.app.garbage import keep_collections_short

MANY = 300_000


@pytest.fixture(autouse=True)
def collector_as_it_was() -> Iterator[None]:
    threshold = gc.get_threshold()
    gc.freeze()  # what the tests before this one have left
    yield
    gc.set_threshold(*threshold)


class Node:
    itself: object


async def _while_kept_short(is_done: Callable[[], bool]) -> None:
    keeping = asyncio.ensure_future(keep_collections_short())
    try:
        async with asyncio.timeout(20):
            while not is_done():
                for _ in range(3):
                    gc.collect(1)  # as if there had been work
                await asyncio.sleep(0)
    finally:
        keeping.cancel()


async def test_many_objects_that_are_in_use_are_set_aside() -> None:
    before = gc.get_freeze_count()
    kept = [[number] for number in range(MANY)]
    await _while_kept_short(lambda: gc.get_freeze_count() >= before + MANY)
    assert len(gc.get_objects(generation=2)) < MANY // 10
    assert len(kept) == MANY


async def test_garbage_is_freed() -> None:
    node = Node()
    node.itself = node
    gone = weakref.ref(node)
    del node
    await _while_kept_short(lambda: gone() is None)


async def test_cycles_that_were_set_aside_are_freed_when_much_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_GROWTH", 1)
    monkeypatch.setattr(garbage, "_GROWTH_AT_LEAST", MANY)
    node = Node()
    node.itself = node
    gone = weakref.ref(node)
    gc.freeze()
    del node
    kept = []

    def grow() -> bool:
        kept.extend([number] for number in range(MANY // 10))
        return gone() is None

    await _while_kept_short(grow)
    assert kept
