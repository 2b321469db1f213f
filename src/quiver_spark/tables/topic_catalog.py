"""A catalog of Spark whose tables are topics: `SELECT ... FROM quiver.orders`.

Spark's interface for Python sources knows no catalogs, and passes no options to a source behind a table. So the
catalog is a class of Spark's own language (TopicCatalog.java), compiled when it is first used.
"""

import logging
from typing import TYPE_CHECKING, Any

from quiver.model.errors import ConnectionLost, NotSupported, QuiverError
from quiver.model.names import is_internal
from quiver_spark.runtime.java_source import JavaClass, compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)
DEFAULT_CATALOG = "quiver"
_SETTINGS = "spark.sql.catalog."
_TIMEOUT = "10s"
CATALOG_CLASS = JavaClass("quiver_spark.tables", "TopicCatalog")


class TopicTables:
    """Called by Spark for the topics of a broker: a line for each, with a tab and the columns of a topic for whose
    values a schema is stored. A line that begins with a tab is what prevents that: it becomes Spark's error."""

    class Java:
        implements = ["java.util.function.Supplier"]  # noqa: RUF012 - py4j reads the attribute

    def __init__(self, bootstrap: str, timeout_seconds: float) -> None:
        self._bootstrap = bootstrap
        self._timeout_seconds = timeout_seconds

    def get(self) -> str:
        try:
            return self._lines()
        except ConnectionLost as error:
            return f"\t{error.message}; is the broker running there? register(spark, 'host:port') chooses another one"
        except QuiverError as error:
            return f"\t{error.message}"

    def _lines(self) -> str:
        from quiver_spark.broker_client import broker_client
        from quiver_spark.column_types import spark_schema
        from quiver_spark.json_values.stored_schemas import stored_columns

        names = broker_client(self._bootstrap, self._timeout_seconds).topics.list()
        typed = stored_columns(self._bootstrap, self._timeout_seconds)
        lines = {name: [name, spark_schema(typed=typed[name])] if name in typed else [name] for name in names}
        return "\n".join("\t".join(line) for name, line in lines.items() if not is_internal(name))


def register_tables(spark: "SparkSession", catalog: str = DEFAULT_CATALOG, **options: object) -> None:
    """Makes the topics of a broker the tables of a catalog: `spark.sql("SELECT * FROM quiver.orders")`.

    Topics that are created later are tables at once. `options` are those of reads, such as bootstrap="host:7481",
    and hold for every table; a query adds its own with `FROM quiver.orders WITH (start = '-1d')`.
    Raises NotSupported where Spark lets no catalog in (Spark Connect).
    """
    given = {name.lower(): str(value) for name, value in options.items()}
    try:
        _install(spark, catalog, {**_configured(spark, catalog), **given})
    except QuiverError:
        raise
    except Exception as error:  # a Spark without these internals may raise anything
        problem = str(error).partition("\n")[0]
        raise NotSupported(
            f"this session takes no catalog ({problem}); use CREATE TEMPORARY VIEW name USING quiver OPTIONS"
            " (bootstrap 'host:7481', topic 'orders')"
        ) from error


def has_catalog(spark: "SparkSession", catalog: str) -> bool:
    """Whether a session has a catalog of this name. Raises NotSupported where it lets no catalog in."""
    try:
        session: Any = spark._jsparkSession
        return bool(session.sessionState().catalogManager().isCatalogRegistered(catalog))
    except Exception as error:  # a Spark without these internals may raise anything
        raise NotSupported(f"this session takes no catalog ({str(error).partition(chr(10))[0]})") from error


def _configured(spark: "SparkSession", catalog: str) -> dict[str, str]:
    """Options from the settings of the session: spark.sql.catalog.quiver.bootstrap."""
    prefix = f"{_SETTINGS}{catalog}."
    settings: Any = spark.conf
    return {name[len(prefix) :].lower(): value for name, value in settings.getAll.items() if name.startswith(prefix)}


def _install(spark: "SparkSession", catalog: str, options: dict[str, str]) -> None:
    from pyspark.java_gateway import ensure_callback_server_started

    from quiver_spark.column_types import spark_schema
    from quiver_spark.options.kafka_names import READ_NAMES
    from quiver_spark.options.option_map import OptionMap
    from quiver_spark.source.options import READ_OPTIONS

    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    given = OptionMap(options, READ_OPTIONS, "reading", READ_NAMES)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    has_own_columns = given.text("valueSchema") is not None or not given.flag("includeHeaders", True)
    schema = None if has_own_columns else jvm.org.apache.spark.sql.types.StructType.fromDDL(spark_schema())
    sessions: Any = spark._jsparkSession
    manager = sessions.sessionState().catalogManager()
    every = {**given.ours, "bootstrap": given.address()}
    tables = TopicTables(given.address(), given.milliseconds("timeout", _TIMEOUT) / 1000)
    compiled(spark.sparkContext, CATALOG_CLASS).install(manager, catalog, every, schema, tables)
