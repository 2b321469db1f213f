"""Errors that cross Spark: what a worker raised arrives as text, and is raised as an error again."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from quiver.model import errors
from quiver.model.errors import QuiverError

_OURS = re.compile(r"quiver\.model\.errors\.(\w+): (.+)")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)": (?:error=\d+, )?(.+)')
_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([^']+)'", re.MULTILINE)
_CONTEXT_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_OTHER = re.compile(r"^(?:[\w.]+(?:Error|Exception)): .+$", re.MULTILINE)


def log_no_contexts() -> None:
    """Spark's errors are raised and nothing else: PySpark would also log each of them, as JSON with all calls in the
    JVM. Its loggers must be of its own class: a plain one fails when it is used."""
    from pyspark.logger import PySparkLogger

    for name in _CONTEXT_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True


@contextmanager
def spark_failures(what: str) -> Iterator[None]:
    """Raises a failure of Spark as an error with one sentence; `what` names the operation."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    log_no_contexts()
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise error_in(str(error), what) from error


def error_in(text: str, what: str) -> QuiverError:
    """The error that a text from Spark describes."""
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, QuiverError)
        found: QuiverError = kind(message.strip())
        return found
    if python := _NO_PYTHON.search(text):
        problem = f"no Python {python[1]} can be run there ({python[2].strip()}): name by spark.pyspark.python one"
        return QuiverError(f"{what} failed in Spark: {problem} that the driver and all workers have")
    if module := _NO_MODULE.search(text):
        problem = f"the Python that runs tasks has no module {module[1]!r}: install what the workers need"
        return QuiverError(f"{what} failed in Spark: {problem} (docs/spark-cluster.md)")
    others = _OTHER.findall(text)
    cause = others[-1] if others else text.strip().partition("\n")[0]
    return QuiverError(f"{what} failed in Spark: {cause}")
