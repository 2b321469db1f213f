"""Garbage collection in short pauses, however many objects the broker has."""

import asyncio
import gc
import time

LONG_SECONDS = 0.005
"""Processor time of a full collection of about twenty thousand objects."""
_LOOK_EVERY_SECONDS, _IDLE_SECONDS = 0.02, 0.16
"""The longer pause is for a process in which nothing is allocated."""
_YOUNG = 50_000
"""Objects that are made before the collector looks at them: most of what a thousand requests in flight need is freed
before, and is never looked at."""
_LOOKED_AT_PER_SECOND = 4_000_000
"""Objects, by a full collection; about."""
_SHARE = 20
"""Full collections take at most a twentieth of the time."""
_GROWTH = 2
_SET_ASIDE_AT_LEAST = 500_000
"""While fewer than twice this many objects are set aside, cycles among them are not worth a pause."""
_NEVER = 1 << 30


async def keep_collections_short() -> None:
    """Runs until it is cancelled, for the whole process.

    Python's full collection looks at every long-lived object in one go: a second for ten thousand partitions. So it
    runs here, often, and when it takes long, the objects in use are set aside (frozen). They are still freed when
    nothing refers to them, except for cycles: these wait until much more is set aside than was in use last time; then
    everything is collected once more.
    """
    gc.set_threshold(_YOUNG, gc.get_threshold()[1], _NEVER)
    known = gc.get_freeze_count()
    most, added = _most_set_aside(known), 0.0
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
                added += took * _LOOKED_AT_PER_SECOND
                if added > max(most - known, most // 8):  # counting takes time, too
                    known, added = gc.get_freeze_count(), 0.0
                    if known > most:
                        gc.unfreeze()
                        set_aside()
                        known = gc.get_freeze_count()
                        most = _most_set_aside(known)
            await asyncio.sleep(took * _SHARE if took < LONG_SECONDS else 0)


def _most_set_aside(in_use: int) -> int:
    return _GROWTH * max(in_use, _SET_ASIDE_AT_LEAST)


def set_aside() -> None:
    """Frees what is garbage now; the collector does not look at the rest any more."""
    gc.collect()
    gc.freeze()
