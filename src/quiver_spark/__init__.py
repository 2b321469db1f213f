"""Quiver for Spark: topics as tables, streams and sinks (format `quiver`), and the jobs built on them.

Importing this package does not import pyspark; what is behind a name is loaded when the name is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quiver_spark.session import register, session
    from quiver_spark.source import QuiverSource

__all__ = ["QuiverSource", "register", "session"]

_HOMES = {
    "QuiverSource": "quiver_spark.source",
    "register": "quiver_spark.session",
    "session": "quiver_spark.session",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'quiver_spark' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
