"""The columns of a read whose user names none, with a schema of the values that is given, stored or inferred.

Spark starts a process for each read that asks for them. What only some reads need is imported there.
"""

from collections.abc import Iterator, Mapping

from quiver.model.errors import InvalidRequest
from quiver.system.clock import SystemClock
from quiver_spark.column_types import spark_schema
from quiver_spark.source.options import ReadOptions, column_options, read_options

INFER = "infer"
STORED = "stored"
BYTES = "bytes"
SAMPLE = 10_000
"""How many messages of each partition a schema is inferred from."""


def schema_of_read(options: Mapping[str, str]) -> str:
    """As DDL. Values are bytes, or a struct if the options have a schema for them or want the stored or an inferred
    one."""
    columns = column_options(options)
    schema = columns.value_schema
    kind = None if schema is None else schema.strip().lower()
    if schema is None or kind == BYTES:
        return spark_schema(headers=columns.headers)
    from quiver_spark.json_values.stored_schemas import stored_schema
    from quiver_spark.json_values.typed_values import value_columns

    if kind in (INFER, STORED):
        read = read_options(options, now_ms=SystemClock().now_ms(), streaming=None)
        schema = inferred_schema(read) if kind == INFER else stored_schema(read)
    return spark_schema(headers=columns.headers, typed=value_columns(schema))


def inferred_schema(options: ReadOptions) -> str:
    """DDL for the values of a read. Raises InvalidRequest if none of them is a JSON object."""
    from quiver_spark.json_values.inference import infer_fields
    from quiver_spark.json_values.typed_values import ddl

    fields = infer_fields(_values(options))
    if not len(fields):
        raise InvalidRequest(
            problem="option 'valueSchema': no value is a JSON object from which a schema could be inferred; give the"
            " schema, such as 'id BIGINT, at TIMESTAMP'"
        )
    from pyspark.sql.pandas.types import from_arrow_schema

    return ddl(from_arrow_schema(fields))


def _values(options: ReadOptions) -> Iterator[bytes | None]:
    """Values from the beginning of each partition."""
    from quiver_spark.source.catalogue import plan
    from quiver_spark.source.frames import read_slice

    seen = set()
    for slice_ in plan(options, cores=1):
        if (slice_.topic, slice_.partition) in seen:
            continue
        seen.add((slice_.topic, slice_.partition))
        front = slice_._replace(stop=min(slice_.stop, slice_.start + SAMPLE))
        for batch in read_slice(front, options, ("value",)):
            yield from batch.column("value").to_pylist()
