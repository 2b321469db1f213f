"""What a Python worker of Spark has loaded, and what it prints when it ends."""

import gc
import sys
import traceback
from functools import cache
from typing import Any

_DAEMON = "pyspark.daemon"


def is_worker(module: str) -> bool:
    """Whether this process is one that Spark has started to run a module of its own, which says what it is for."""
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return module in sys.modules or (spec is not None and spec.name == module)


@cache
def settle_modules() -> None:
    """Call it once a worker has loaded what it needs: from then on a task takes about 20 ms less.

    Spark's workers collect garbage after every task, and go through every module each time. What is loaded by now is
    not garbage and is left alone.
    """
    gc.collect()
    gc.freeze()


@cache
def expect_to_be_cut_off() -> None:
    """Call it in a worker that reads more than Spark may want: after `limit`, `take` or `show` Spark just closes the
    connection, the worker ends with that, and its parent would print the traceback for every such query."""
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        main.traceback = _Tracebacks()


class _Tracebacks:
    """The module `traceback` for the process that Spark forks its workers from."""

    def print_exc(self) -> None:
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            traceback.print_exc()

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)
