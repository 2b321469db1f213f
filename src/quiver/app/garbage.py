"""Garbage collection in short pauses, however many objects a large broker holds."""

import asyncio
import gc

MOST_OBJECTS = 20_000
"""That have lived for a while and are looked at by a full collection: about 10 ms."""
_LOOK_EVERY_SECONDS = 0.1
_YOUNG_OBJECTS, _MIDDLE_RUNS = 700, 10
_NEVER = 1 << 30
_RUNS_BEFORE_A_LOOK = MOST_OBJECTS // (_YOUNG_OBJECTS * _MIDDLE_RUNS)


async def keep_collections_short() -> None:
    """Runs until it is cancelled, for the whole process.

    Python's full collection looks at every object that has lived for a while, in one piece: a second for ten thousand
    partitions. So it runs here, and when too many have gathered, those that are in use are set aside for good. They
    are still freed when nobody refers to them; only cycles among them are not.
    """
    gc.set_threshold(_YOUNG_OBJECTS, _MIDDLE_RUNS, _NEVER)
    while True:
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
        if gc.get_count()[2] >= _RUNS_BEFORE_A_LOOK and len(gc.get_objects(generation=2)) > MOST_OBJECTS:
            gc.collect()
            if len(gc.get_objects(generation=2)) > MOST_OBJECTS // 2:
                gc.freeze()


def set_aside() -> None:
    """Frees what is garbage now; the collector does not look at the rest any more."""
    gc.collect()
    gc.freeze()
