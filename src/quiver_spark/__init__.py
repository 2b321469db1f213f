"""Quiver for Spark: topics as tables, streams and sinks (format `quiver`), and the jobs built on them.

Importing this package does not import pyspark.
"""

import importlib
from typing import TYPE_CHECKING, Any

from quiver_spark.expectations import Expectations
from quiver_spark.notebook.frame_view import display
from quiver_spark.progress.reported_offset import lag
from quiver_spark.runtime.session import register, session
from quiver_spark.tables.topic_catalog import register_tables

if TYPE_CHECKING:
    from quiver_spark.json_values.stored_schemas import store_schema
    from quiver_spark.source.data_source import QuiverSource

__all__ = ["Expectations", "QuiverSource", "display", "lag", "register", "register_tables", "session", "store_schema"]


_LATER = {
    "QuiverSource": "quiver_spark.source.data_source",
    "store_schema": "quiver_spark.json_values.stored_schemas",
}
"""What is imported when it is first used, by its module."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'quiver_spark' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
