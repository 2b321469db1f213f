"""Quiver for Spark: topics as tables, streams and sinks (format `quiver`), and the jobs built on them.

What is behind a name is imported when the name is first used: Spark starts several Python processes for a query, and
some of them need nothing but the class of the source.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quiver_spark.expectations import Expectations
    from quiver_spark.json_values.stored_schemas import store_schema
    from quiver_spark.notebook.frame_view import display
    from quiver_spark.progress.reported_offset import lag
    from quiver_spark.runtime.session import register, session
    from quiver_spark.source.data_source import QuiverSource
    from quiver_spark.tables.topic_catalog import register_tables

__all__ = ["Expectations", "QuiverSource", "display", "lag", "register", "register_tables", "session", "store_schema"]


_MODULES = {
    "Expectations": "quiver_spark.expectations",
    "QuiverSource": "quiver_spark.source.data_source",
    "display": "quiver_spark.notebook.frame_view",
    "lag": "quiver_spark.progress.reported_offset",
    "register": "quiver_spark.runtime.session",
    "register_tables": "quiver_spark.tables.topic_catalog",
    "session": "quiver_spark.runtime.session",
    "store_schema": "quiver_spark.json_values.stored_schemas",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'quiver_spark' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
