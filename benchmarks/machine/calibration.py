"""How fast the processor is at the moment: fixed work in Python and a fixed copy, beside each repetition.

Virtual machines swing by tens of percent within minutes. These figures are in processor time, so that other programs
disturb them little; a repetition whose calibration differs from the others' was measured on another machine, so to
speak.
"""

import ctypes
import statistics
import time
from collections.abc import Callable

from benchmarks.measurement import Metrics

LOOPS = 40_000
COPY_BYTES = 16 << 20
ROUNDS = 3
_source = ctypes.create_string_buffer(COPY_BYTES)
_target = ctypes.create_string_buffer(COPY_BYTES)


def calibrate() -> Metrics:
    """Milliseconds of processor time for each piece of work: about 5, the median of three; lower is faster."""
    return {"calibration_python_ms": _median(_count), "calibration_copy_ms": _median(_copy)}


def mean(before: Metrics, after: Metrics) -> Metrics:
    return {name: (value + after[name]) / 2 for name, value in before.items()}


def _median(work: Callable[[], None]) -> float:
    return statistics.median(_timed(work) for _ in range(ROUNDS))


def _timed(work: Callable[[], None]) -> float:
    begin = time.thread_time()
    work()
    return (time.thread_time() - begin) * 1e3


def _count() -> None:
    """What a broker in Python does: small objects, dictionaries, calls."""
    seen: dict[int, tuple[int, bytes]] = {}
    for number in range(LOOPS):
        seen[number & 1023] = (number, number.to_bytes(8, "little"))


def _copy() -> None:
    ctypes.memmove(_target, _source, COPY_BYTES)
