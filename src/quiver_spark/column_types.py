"""The columns of a message in Spark and their types, for processes that make no rows: no Arrow is imported."""

from collections.abc import Mapping

SPARK_TYPES = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "append_time": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": "map<string,binary>",
    "priority": "string",
}
SPARK_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in SPARK_TYPES.items())


def spark_schema(*, headers: bool = True, typed: Mapping[str, str] | None = None) -> str:
    """The columns of a read that names none; `typed` has columns in the place of others, and more."""
    kinds = SPARK_TYPES | dict(typed or {})
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items() if headers or name != "headers")
