"""Full garbage collections stay short: what lives long is not looked at again and again."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from quiver.app.garbage import MOST_OBJECTS, keep_collections_short


@pytest.fixture(autouse=True)
def collector_as_it_was() -> Iterator[None]:
    threshold = gc.get_threshold()
    gc.freeze()  # what the tests before this one have left
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


async def _until(looked_at: int) -> None:
    """Until a full collection has at most so much to look at."""
    keeping = asyncio.ensure_future(keep_collections_short())
    try:
        async with asyncio.timeout(20):
            while len(gc.get_objects(generation=2)) > looked_at:
                await asyncio.sleep(0)
    finally:
        keeping.cancel()


async def test_many_objects_that_are_in_use_are_set_aside() -> None:
    kept = [[number] for number in range(3 * MOST_OBJECTS)]
    gc.collect(1)
    assert len(gc.get_objects(generation=2)) > MOST_OBJECTS
    for _ in range(5):  # the collector counts its short runs
        gc.collect(1)
    await _until(MOST_OBJECTS)
    assert gc.get_freeze_count() > 3 * MOST_OBJECTS
    assert len(kept) == 3 * MOST_OBJECTS


async def test_garbage_is_freed_and_not_set_aside() -> None:
    before = gc.get_freeze_count()
    gc.disable()
    try:
        for _ in range(2 * MOST_OBJECTS):
            cycle: list[object] = []
            cycle.append(cycle)
        kept = [[number] for number in range(10)]
        del cycle
    finally:
        gc.enable()
    await _until(MOST_OBJECTS)
    assert gc.get_freeze_count() <= before + MOST_OBJECTS
    assert len(kept) == 10
