"""A Spark session with what Quiver needs: local unless told otherwise, quiet, quick to start."""

import importlib
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from quiver.model.errors import InvalidRequest, NotSupported
from quiver_spark.runtime.class_archive import SETTING as ARCHIVE_SETTING
from quiver_spark.runtime.class_archive import ClassArchive
from quiver_spark.runtime.cluster import address_towards, is_local, join
from quiver_spark.runtime.failures import log_no_contexts, spark_failures
from quiver_spark.runtime.java_source import compile_meanwhile
from quiver_spark.runtime.query_plans import CLASSES as QUERY_CLASSES
from quiver_spark.runtime.query_plans import plan_each_query
from quiver_spark.runtime.spark_home import installed_pyspark
from quiver_spark.tables.topic_catalog import CATALOG_CLASS, DEFAULT_CATALOG, has_catalog, register_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import quiver

_logger = logging.getLogger(__name__)
OLDEST_JAVA = 17
SHUFFLE_SETTING = "spark.sql.shuffle.partitions"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_QUERY_SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_VERSION = re.compile(r'version "(\d+)')
_SECONDS = 20
_LOCAL = "local[*,4]"
"""All cores; a task that fails is tried again, four times in total, as on a cluster."""
_REMOTE = "sc://"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, which has chosen a master already."""


def session(app_name: str = "quiver", master: str | None = None, **conf: object) -> "SparkSession":
    """A session with the source `quiver`; `conf` sets anything else, with _ for the dots of a name.

    `spark_sql_shuffle_partitions=4` is `spark.sql.shuffle.partitions`; names with dots go in as `**{"spark.x": 1}`.
    If there is a session in this process, it is that one. On a cluster it is ready when there is an executor, and
    the workers get Quiver's code (docs/spark-cluster.md). With the URL of a Spark Connect server, sc://host:15002, it
    is a remote one: that needs no Java here, and a Python with quivermq[spark] there.
    Raises InvalidRequest if there is no Java or no pyspark, ConnectionLost if there is no master.
    """
    given = {_name(key): _text(value) for key, value in conf.items()}
    if master is not None and master.startswith(_REMOTE):
        _import_pyspark()
        return _remote(app_name, master, given)
    _import_pyspark()
    java = find_java()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return _adopted(running, given)
    given = {**_submitted(), **given}
    master = master or given.get("spark.master") or os.environ.get("SPARK_MASTER") or _LOCAL
    settings = {"spark.app.name": app_name, **_settings(master), **given, "spark.master": master}
    _choose_python(settings)
    archive = None
    with spark_failures("starting a session"), installed_pyspark() if is_local(master) else nullcontext() as home:
        if home is not None and JAVA_OPTIONS not in given and settings.get(ARCHIVE_SETTING) != "false":
            archive = ClassArchive(home, java.version)
            settings[JAVA_OPTIONS] += f" {archive.options()}"
        spark = _start(settings)
    if not is_local(master):
        join(spark)
        spark.conf.set(SHUFFLE_SETTING, given.get(SHUFFLE_SETTING, str(spark.sparkContext.defaultParallelism)))
    _prepare_queries(spark)
    if archive is not None:
        archive.make_if_missing()  # not before: it would take time from this session's start
    return spark


def _start(settings: Mapping[str, str]) -> "SparkSession":
    """What can be done beside the start of Java and of the session itself is done meanwhile."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    _import_meanwhile()
    context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    compile_meanwhile(context, (*QUERY_CLASSES, CATALOG_CLASS))
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _import_pyspark() -> None:
    try:
        importlib.import_module("pyspark.sql")
    except ImportError:
        raise InvalidRequest(problem="pyspark is not installed: pip install 'quivermq[spark]'") from None


def _import_meanwhile() -> None:
    """While Java starts, there is a core for what is needed later: PySpark imports its modules for tests, and pandas
    where it is installed, in its first call with an argument, and the first query needs Quiver's client."""

    def load() -> None:
        for name in ("pyspark.testing.utils", "pandas", "quiver_spark.broker_client"):
            with suppress(ImportError):
                importlib.import_module(name)

    Thread(target=load, name="import-meanwhile", daemon=True).start()


def _remote(app_name: str, url: str, given: Mapping[str, str]) -> "SparkSession":
    """A session of a Spark Connect server, which finds the source by itself."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url).appName(app_name)
    for key, value in {**_QUERY_SETTINGS, **given}.items():
        builder = builder.config(key, value)
    with spark_failures("connecting to Spark"):
        return builder.getOrCreate()


def _adopted(spark: "SparkSession", given: Mapping[str, str]) -> "SparkSession":
    """A session that runs already, with what queries need set; it stays where it is."""
    for key, value in {**_QUERY_SETTINGS, **given}.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    if not is_local(spark.sparkContext.master or ""):
        join(spark)
    _prepare_queries(spark)
    return spark


def _prepare_queries(spark: "SparkSession") -> None:
    """Each query is planned when it begins, and the topics of the usual broker are the tables of a catalog, unless
    there is a catalog with its name."""
    log_no_contexts()
    plan_each_query(spark)
    try:
        if not has_catalog(spark, DEFAULT_CATALOG):
            register_tables(spark)
    except NotSupported as error:
        _logger.warning("%s", error.message)


def register(spark: "SparkSession", broker: "quiver.Client | str | None" = None) -> None:
    """Makes the format `quiver` known to a session of your own, and makes each of its queries plan its reads again.

    A session finds the format by itself where the package is installed, but then plans a DataFrame or view only once:
    it shows the topic as it was at its first action. With a `broker`, reads and writes that name none use it: an
    address, or the client that `quiver.open` returned, whose broker then listens on a port of this machine.
    """
    from quiver_spark.broker_client import address_of
    from quiver_spark.source.data_source import QuiverSource, source_at

    if broker is None:
        spark.dataSource.register(QuiverSource)
        _prepare_queries(spark)
        return
    address = address_of(broker)
    spark.dataSource.register(source_at(address))
    plan_each_query(spark)
    register_tables(spark, bootstrap=address)


class Java(NamedTuple):
    """The Java that Spark runs on."""

    path: str
    version: str
    """As it describes itself."""


def find_java() -> Java:
    """Raises InvalidRequest if there is none that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    advice = (
        f"install Java {OLDEST_JAVA} or newer (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME to one"
    )
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise InvalidRequest(problem=f"Spark needs Java and there is none {where}: {advice}")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_SECONDS)
    found = _VERSION.search(done.stderr)
    if found is None or int(found[1]) < OLDEST_JAVA:
        raise InvalidRequest(problem=f"Spark does not run on {java} ({done.stderr.partition(chr(10))[0]}): {advice}")
    return Java(java, done.stderr)


def java_options() -> str:
    """The options of Java in a session that sets none."""
    logging = Path(__file__).absolute().with_name("log4j2.properties").as_uri()
    return f"-Dlog4j2.configurationFile={logging} -XX:+UseParallelGC"


def _submitted() -> dict[str, str]:
    """The settings of spark-submit, if it runs this; they win over the defaults here."""
    if _SUBMITTED not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _settings(master: str) -> dict[str, str]:
    usual = {
        **_QUERY_SETTINGS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        JAVA_OPTIONS: java_options(),
    }
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        return {**usual, SHUFFLE_SETTING: str(len(os.sched_getaffinity(0)))}
    if _SUBMITTED in os.environ or "SPARK_LOCAL_IP" in os.environ:
        return usual
    address = address_towards(master)
    return usual if address is None else {**usual, "spark.driver.host": address}


def _choose_python(settings: Mapping[str, str]) -> None:
    """Which Python runs tasks: that of the setting, of the environment, or the one that runs here, by its path."""
    chosen = settings.get("spark.pyspark.python")
    if chosen is not None:
        os.environ["PYSPARK_PYTHON"] = chosen
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _name(key: str) -> str:
    return key if "." in key else key.replace("_", ".")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
