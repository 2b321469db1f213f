"""The source of a job as a caller gives it."""

from collections.abc import Mapping

from quiver.system.clock import SystemClock
from quiver_spark.options import ReadOptions, read_options


def given_options(source: ReadOptions | Mapping[str, object]) -> ReadOptions:
    """Options of a batch read, or what they were read into; those that are None are not given."""
    if isinstance(source, ReadOptions):
        return source
    return read_options(option_texts(source), now_ms=SystemClock().now_ms())


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark takes them."""
    return {name: _text(value) for name, value in options.items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
