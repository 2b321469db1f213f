"""Topics as the tables of a query: temporary views, with columns for the fields of JSON values."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.archive.value_columns import check_schema_choice, read_schema, sample_values
from quiver_spark.json_values.inference import infer_fields
from quiver_spark.lake.json_columns import JsonColumns, check_fields
from quiver_spark.lake.schema import column_name
from quiver_spark.source.catalogue import chosen_extents, open_catalogue
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Fields = dict[str, pa.Schema]
"""The fields of the JSON values of each topic; empty where values are not JSON."""
_OTHER = re.compile(r"\W")


def plain_name(topic: str) -> str:
    """The name of a topic in a query without backticks."""
    return _OTHER.sub("_", topic)


def check_names(topics: list[str]) -> None:
    """Raises InvalidRequest if two topics would be the same table."""
    if not topics:
        raise InvalidRequest(problem="name the topics that the query reads (from)")
    names = [plain_name(topic).lower() for topic in topics]
    for topic, name in zip(topics, names, strict=True):
        if names.count(name) > 1:
            raise InvalidRequest(problem=f"two topics would be the table {plain_name(topic)!r}: query one at a time")


def fields_of(options: ReadOptions, schema: str | None) -> Fields:
    """Those of a schema for every topic; otherwise inferred from the first messages of each partition."""
    check_schema_choice(schema, infer=False)
    if schema is not None:
        fields = check_fields(read_schema(schema))
        return dict.fromkeys(options.topics, fields)
    catalogue = open_catalogue(options)
    try:
        found = Fields()
        for topic in chosen_extents(catalogue, options):
            ends = enumerate(zip(topic.earliest, topic.latest, strict=True))
            slices = [Slice(topic.name, number, first, end, topic.id) for number, (first, end) in ends]
            found[topic.name] = infer_fields(sample_values(catalogue, slices, options), column_name)
        return found
    finally:
        catalogue.close()


def json_columns(fields: pa.Schema) -> JsonColumns | None:
    return JsonColumns(fields) if len(fields) else None


def field_columns(fields: Fields) -> list[list[str]]:
    """The names of the columns that the tables have for fields of values."""
    found = map(json_columns, fields.values())
    return [each.columns.names for each in found if each is not None]


@contextmanager
def as_tables(spark: "SparkSession", frames: "Mapping[str, DataFrame]") -> Iterator[None]:
    """Makes a view of each topic, under its name and its plain name; they are gone afterwards."""
    made = []
    try:
        for topic, frame in frames.items():
            for name in dict.fromkeys((topic, plain_name(topic))):
                frame.createOrReplaceTempView(f"`{name}`")
                made.append(name)
        yield
    finally:
        for name in made:
            spark.catalog.dropTempView(f"`{name}`")
