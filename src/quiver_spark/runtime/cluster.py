"""What a session on a cluster needs in addition to a local one (docs/spark-cluster.md)."""

import logging
import socket
import time
from typing import TYPE_CHECKING, Any

from quiver.model.errors import ConnectionLost, InvalidRequest
from quiver_spark.runtime.shipping import ship
from quiver_spark.runtime.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)
SHIP_SETTING = "spark.quiver.ship"
_STANDALONE = "spark://"
_MASTER_PORT = 7077
_CONNECT_SECONDS = 10.0
_NUMBERS = 100_000
"""Spark divides this many by the tasks that it can run at once."""
_LOOK_SECONDS = 0.1
_PATIENT_SECONDS = 15.0
"""How long to wait for executors before a warning."""


def is_local(master: str) -> bool:
    """Whether the tasks run in this machine's own process: `local`, `local[*]`, `local[2,4]`."""
    return master == "local" or master.startswith("local[")


def is_remote(spark: "SparkSession") -> bool:
    """Whether the driver is in a Spark Connect server: then only DataFrames can be used."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def cores(spark: "SparkSession") -> int:
    """How many tasks run at once."""
    if not is_remote(spark):
        return spark.sparkContext.defaultParallelism
    places = spark.range(_NUMBERS).selectExpr("spark_partition_id() AS place")
    most = places.selectExpr("max(place) AS place").first()
    assert most is not None, "an aggregate has a row"
    return int(most.place) + 1


def address_towards(master: str) -> str | None:
    """The address of this machine that the master of a standalone cluster sees, so that the workers can call back.

    None for other kinds of cluster. Raises ConnectionLost if no master is there: Spark would try for a minute first.
    """
    if not master.startswith(_STANDALONE):
        return None
    problem = ""
    for place in master.removeprefix(_STANDALONE).split(","):
        try:
            with socket.create_connection(_host_and_port(place, master), _CONNECT_SECONDS) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            problem = error.strerror or str(error)
    raise ConnectionLost(f"no Spark master at {master}: {problem}; is it running there, and is the URL its own?")


def _host_and_port(place: str, master: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    if not host:
        return place, _MASTER_PORT
    if not port.isdigit():
        raise InvalidRequest(
            problem=f"the master {master!r} is not spark://HOST:PORT, as its log or its page shows it"
        )
    return host.strip("[]"), int(port)


def join(spark: "SparkSession") -> None:
    """Makes a session on a cluster ready for reads, writes and jobs.

    The workers get Quiver's code from here, unless spark.quiver.ship is false. The source is registered
    explicitly: Spark runs one that it discovered with the driver's Python, and without the shipped code.
    """
    from quiver_spark.source.data_source import QuiverSource

    context = spark.sparkContext
    if str(spark.conf.get(SHIP_SETTING, "true")).lower() != "false":
        ship(context)
    spark.dataSource.register(QuiverSource)
    await_executor(context)


def await_executor(context: "SparkContext") -> None:
    """Waits until there is an executor. Spark would wait silently; this logs a warning after a while."""
    watch, is_told = Stopwatch(), False
    while not _executors(context):
        time.sleep(_LOOK_SECONDS)
        if not is_told and watch.seconds() > _PATIENT_SECONDS:
            is_told = True
            _logger.warning(
                "waiting for executors of %s: its workers have too few free cores, or less memory than"
                " spark.executor.memory asks for",
                context.master,
            )


def _executors(context: "SparkContext") -> int:
    """How many executors there are, without the driver, which Spark counts too."""
    inside: Any = context._jsc.sc()
    if inside.isStopped():
        raise ConnectionLost(f"the Spark master at {context.master} refused this application, or is gone")
    return len(inside.statusTracker().getExecutorInfos()) - 1
