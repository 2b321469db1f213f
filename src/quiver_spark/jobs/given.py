"""The source and the session of a job as a caller gives them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from quiver.model.times import parse_duration_ms
from quiver.system.clock import SystemClock
from quiver_spark.source.options import ReadOptions, read_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GivenSession: TypeAlias = "SparkSession | Callable[[], SparkSession]"
"""A session, or how to start one. Jobs start it when all that can be checked without it is known to be right."""


def started(spark: GivenSession) -> "SparkSession":
    return spark() if callable(spark) else spark


def given_options(source: ReadOptions | Mapping[str, object]) -> ReadOptions:
    """Options of a batch read, or what they were read into; those that are None are not given."""
    if isinstance(source, ReadOptions):
        return source
    return read_options(option_texts(source), now_ms=SystemClock().now_ms())


def commit_options(transaction_timeout: str | None) -> dict[str, str]:
    """How long what a job writes at once may take, as an option of the sink; InvalidRequest if it is no duration."""
    if transaction_timeout is None:
        return {}
    parse_duration_ms(transaction_timeout, "the transaction timeout")
    return {"transactionTimeout": transaction_timeout}


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark takes them."""
    return {name: _text(value) for name, value in options.items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
