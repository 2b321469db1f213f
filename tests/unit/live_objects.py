"""Counts of the product's objects, for tests that what comes and goes leaves nothing behind."""

import gc
from collections import Counter


def live_objects() -> Counter[str]:
    """By type. Collects garbage first, also what is set aside."""
    gc.unfreeze()
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if _is_ours(kind))


def grown(before: Counter[str], after: Counter[str], least: int) -> dict[str, int]:
    """Types of which there are at least so many more."""
    return {name: count - before[name] for name, count in after.items() if count - before[name] >= least}


def _is_ours(kind: type) -> bool:
    return str(kind.__module__).startswith("quiver")
