"""The source and the session that a caller passes to a job."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from quiver.model.times import parse_duration_ms
from quiver.system.clock import SystemClock
from quiver_spark.runtime.cluster import is_remote
from quiver_spark.source.options import ReadOptions, read_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SessionOrFactory: TypeAlias = "SparkSession | Callable[[], SparkSession]"
"""A session, or a function that starts one. Jobs call it after all checks that need no session."""


def started(spark: SessionOrFactory) -> "SparkSession":
    """The session, made the active one of this thread: Spark finds a Python sink only by that."""
    session = spark() if callable(spark) else spark
    inside: Any = session
    if not is_remote(session):
        inside._jvm.SparkSession.setActiveSession(inside._jsparkSession)
    return session


def batch_read_options(source: ReadOptions | Mapping[str, object]) -> ReadOptions:
    """The options of a batch read, parsed unless they are already; None means not given."""
    if isinstance(source, ReadOptions):
        return source
    return read_options(option_texts(source), now_ms=SystemClock().now_ms())


def commit_options(transaction_timeout: str | None) -> dict[str, str]:
    """The transaction timeout of a job as an option of the sink. Raises InvalidRequest if it is not a duration."""
    if transaction_timeout is None:
        return {}
    parse_duration_ms(transaction_timeout, "the transaction timeout")
    return {"transactionTimeout": transaction_timeout}


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark takes them."""
    return {name: _text(value) for name, value in options.items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
