"""Columns from the fields of JSON values, in addition to the raw value.

A value that is not a JSON object, or has a field of another type, is kept as it is, with null in every typed column.
Fields that the schema does not name are left out; those that it names and a value lacks are null.
"""

from typing import NamedTuple

import pyarrow as pa

from quiver_spark.json_values.decoding import decoded
from quiver_spark.json_values.row_decoder import check_decodable
from quiver_spark.lake.schema import typed_columns


class JsonColumns(NamedTuple):
    """The fields of JSON values that get columns. Sent to the workers."""

    fields: pa.Schema

    @property
    def columns(self) -> pa.Schema:
        return typed_columns(self.fields)

    def extended(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([*schema, *self.columns])

    def extend_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the typed columns after its own."""
        arrays = typed(batch.column("value"), self.fields)
        return pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=self.extended(batch.schema))


def typed(values: pa.Array, fields: pa.Schema) -> list[pa.Array]:
    """A column for each field."""
    return list(decoded(values, fields).flatten())


def check_fields(fields: pa.Schema) -> pa.Schema:
    """The fields themselves. Raises InvalidRequest if there is none, one that JSON cannot give, or two of a name."""
    typed_columns(fields)
    return check_decodable(fields)
