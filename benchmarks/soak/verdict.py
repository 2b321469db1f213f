"""Whether a run kept its memory, its files and the size of its store."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.soak.samples import Sample

LEAST_SECONDS = 300.0
"""A shorter run says nothing: caches are still being filled."""
MEMORY_ROOM_BYTES, MEMORY_ROOM = 16 << 20, 0.10
FILES_ROOM = 20
STORE_ROOM_BYTES, STORE_ROOM = 64 << 20, 0.25
"""Journals are cut now and then, so a small store grows and shrinks."""


class Growth(NamedTuple):
    """Of one figure: its median in the second quarter of a run and in the last."""

    name: str
    before: float
    after: float
    most: float

    @property
    def is_within(self) -> bool:
        return self.after <= self.most


def growths(samples: Sequence[Sample]) -> list[Growth]:
    memory = _growth("memory_bytes", samples, lambda sample: sample.memory_bytes)
    files = _growth("open_files", samples, lambda sample: sample.open_files)
    store = _growth("store_bytes", samples, lambda sample: sample.store_bytes)
    return [
        memory._replace(most=memory.before * (1 + MEMORY_ROOM) + MEMORY_ROOM_BYTES),
        files._replace(most=files.before + FILES_ROOM),
        store._replace(most=store.before * (1 + STORE_ROOM) + STORE_ROOM_BYTES),
    ]


def _growth(name: str, samples: Sequence[Sample], of: Callable[[Sample], float]) -> Growth:
    end = samples[-1].seconds
    second = [of(sample) for sample in samples if end / 4 <= sample.seconds <= end / 2]
    last = [of(sample) for sample in samples if sample.seconds >= end * 3 / 4]
    return Growth(name, median(second or [of(samples[0])]), median(last), 0)


def verdict(samples: Sequence[Sample]) -> str:
    """`steady`, what has grown, or that the run was too short to say."""
    if samples[-1].seconds < LEAST_SECONDS:
        return "too short"
    grown = [each for each in growths(samples) if not each.is_within]
    changes = ", ".join(f"{each.name} {each.before:,.0f} to {each.after:,.0f}" for each in grown)
    return f"grows: {changes}" if grown else "steady"
