"""Garbage collection in short pauses, however many objects the broker has."""

import asyncio
import gc
import sys
import time

LONG_SECONDS = 0.005
"""Processor time of a full collection of about twenty thousand objects."""
_LOOK_EVERY_SECONDS, _IDLE_SECONDS = 0.02, 0.16
"""The longer pause is for a process in which nothing is allocated."""
_YOUNG = 50_000
"""Objects that are made before the collector looks at them: most of what a thousand requests in flight need is freed
before, and is never looked at."""
_SHARE = 20
"""Full collections take at most a twentieth of the time."""
_GROWTH = 2
_GROWTH_AT_LEAST = 4_000_000
"""Blocks of memory, about 400 MB: fewer are not worth a pause in which everything is looked at."""
_NEVER = 1 << 30


async def keep_collections_short() -> None:
    """Runs until it is cancelled, for the whole process.

    Python's full collection looks at every long-lived object in one go: a second for ten thousand partitions. So it
    runs here, often, and when it takes long, the objects in use are set aside (frozen). They are still freed when
    nothing refers to them, except for cycles: these wait until the process uses much more memory than it needed last
    time; then everything is collected once more.
    """
    gc.set_threshold(_YOUNG, gc.get_threshold()[1], _NEVER)
    most = _most_blocks()
    pause = _LOOK_EVERY_SECONDS
    while True:
        await asyncio.sleep(pause)
        is_due = any(gc.get_count()[1:])  # some objects have passed a short run of the collector
        pause = _LOOK_EVERY_SECONDS if is_due else min(_IDLE_SECONDS, 2 * pause)
        if is_due:
            begun = time.thread_time()
            gc.collect()
            took = time.thread_time() - begun
            if took > LONG_SECONDS:
                gc.freeze()
                if sys.getallocatedblocks() > most:
                    gc.unfreeze()
                    set_aside()
                    most = _most_blocks()
            await asyncio.sleep(took * _SHARE if took < LONG_SECONDS else 0)


def _most_blocks() -> int:
    """Blocks of memory are counted in a millisecond; to count the objects that are set aside takes a hundred."""
    in_use = sys.getallocatedblocks()
    return max(_GROWTH * in_use, in_use + _GROWTH_AT_LEAST)


def set_aside() -> None:
    """Frees what is garbage now; the collector does not look at the rest any more."""
    gc.collect()
    gc.freeze()
