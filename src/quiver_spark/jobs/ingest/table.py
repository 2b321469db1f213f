"""`ingest --jdbc`: the rows of a database table into a topic, in the order of a column that grows, each once."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.names import check_name
from quiver_spark.jobs.arguments import SessionOrFactory, commit_options, started
from quiver_spark.jobs.ingest.done import DoneTopic, commit_key, with_records
from quiver_spark.jobs.ingest.transforms import row_messages
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.jobs.sql.job import write_once
from quiver_spark.jobs.target_topic import make_topic
from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP
from quiver_spark.runtime.cluster import cores
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_NUMBERS = 1_000_000
"""How many values of the column make a commit."""
_PARTITIONS = 3


class Table(NamedTuple):
    """A table, or a query in parentheses with a name, and the column by which it is read."""

    url: str
    name: str
    column: str
    """Integers that grow: a row that is added has a higher one than all before it."""
    options: Mapping[str, str] = {}
    """Others of Spark's JDBC source: user, password, driver, fetchsize."""

    @property
    def place(self) -> str:
        """What the table is known by; without what a URL may have behind a question mark or semicolon."""
        url = self.url.partition("?")[0].partition(";")[0]
        return f"{url}#{self.name}#{self.column}"

    def frame(self, spark: "SparkSession", query: str, **more: object) -> "DataFrame":
        reader = spark.read.format("jdbc").options(**self.options).option("url", self.url).option("dbtable", query)
        return reader.options(**{name: str(value) for name, value in more.items()}).load()

    def bounds(self, spark: "SparkSession") -> tuple[int, int] | None:
        """The lowest and highest value of the column; None if the table has no rows."""
        query = f"(SELECT MIN({self.column}) AS low, MAX({self.column}) AS high FROM {self.name}) bounds"  # noqa: S608
        row = self.frame(spark, query).collect()[0]
        if row[0] is None:
            return None
        if int(row[0]) != row[0]:
            raise InvalidRequest(problem=f"the column {self.column!r} has no integers: name one that counts rows")
        return int(row[0]), int(row[1])

    def rows(self, spark: "SparkSession", start: int, stop: int) -> "DataFrame":
        """Rows from a value to below another, read by several tasks."""
        where = f"{self.column} >= {start} AND {self.column} < {stop}"
        query = f"(SELECT * FROM {self.name} WHERE {where}) part"  # noqa: S608
        split = {"partitionColumn": self.column, "lowerBound": start, "upperBound": stop}
        return self.frame(spark, query, **split, numPartitions=cores(spark))


def run_table(
    spark: SessionOrFactory,
    table: Table,
    to: str,
    *,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    key: str | None = None,
    batch_numbers: int = BATCH_NUMBERS,
    partitions: int = _PARTITIONS,
    transaction_timeout: str | None = None,
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Writes the rows of a table that were not ingested yet, as JSON objects, to the topic `to`.

    How far it is read is recorded in the transaction of the rows. `dry_run` says which values would be read.
    """
    target, writing = check_name(to), commit_options(transaction_timeout)
    done = DoneTopic(target, bootstrap)
    before = done.read().get(table.place)
    spark, watch = started(spark), Stopwatch()
    with spark_failures("the ingest"):
        bounds = table.bounds(spark)
    low, high = bounds or (0, -1)
    start, stop = (low if before is None else int(before["next"])), high + 1
    details: dict[str, Any] = {"to": target, "column": table.column, "from": start, "to_below": stop}
    if dry_run:
        return Summary(job="ingest", seconds=watch.seconds(), details={**details, "dry_run": True})
    make_topic(target, bootstrap, partitions)
    done.make()
    rows = 0
    bar = progress_bar("ingest", max(0, stop - start), table.column, wanted=show_progress)
    with spark_failures("the ingest"), bar as shown:
        for begin in range(start, stop, batch_numbers):
            end = min(begin + batch_numbers, stop)
            records = {table.place: {"next": end}}
            frame = with_records(row_messages(table.rows(spark, begin, end), key), target, done, records)
            sink = {"bootstrap": bootstrap, "commitKey": commit_key(target, records), **writing}
            with shown.watch(spark, end - begin):
                rows += write_once(frame, sink) - len(records)
    return Summary(job="ingest", rows=rows, seconds=watch.seconds(), details=details)
