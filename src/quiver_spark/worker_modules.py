"""What a Python worker of Spark has loaded."""

import gc
import sys
from functools import cache
from typing import Any


def is_worker(module: str) -> bool:
    """Whether this process is one that Spark has started to run a module of its own, which says what it is for."""
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return module in sys.modules or (spec is not None and spec.name == module)


@cache
def settle_modules() -> None:
    """Call it once a worker has loaded what it needs: from then on a task costs some 20 ms less.

    Spark's workers collect garbage after every task, and go through every module each time. What is loaded by now is
    no garbage and is left alone.
    """
    gc.collect()
    gc.freeze()
