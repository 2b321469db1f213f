"""Garbage collection in short pauses, however many objects a large broker holds."""

import asyncio
import gc
import time

LONG_SECONDS = 0.005
"""Processor time of a full collection that looks at about twenty thousand objects."""
_LOOK_EVERY_SECONDS = 0.02
_RUNS_BEFORE_A_FULL_ONE = 3
"""Short runs of the collector, which leave at most 7,000 objects each to the next full one."""
_SHARE = 20
"""A full collection takes at most one part in so many of the time."""
_NEVER = 1 << 30


async def keep_collections_short() -> None:
    """Runs until it is cancelled, for the whole process.

    Python's full collection looks at every object that has lived for a while, in one piece: a second for ten thousand
    partitions. So it runs here, often, and when it takes long, what it found in use is set aside for good. That is
    still freed when nobody refers to it; only cycles are not.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    while True:
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
        if gc.get_count()[2] >= _RUNS_BEFORE_A_FULL_ONE:
            begun = time.thread_time()
            gc.collect()
            took = time.thread_time() - begun
            if took > LONG_SECONDS:
                gc.freeze()
            await asyncio.sleep(took * _SHARE if took < LONG_SECONDS else 0)


def set_aside() -> None:
    """Frees what is garbage now; the collector does not look at the rest any more."""
    gc.collect()
    gc.freeze()
