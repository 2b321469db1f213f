"""The messages of Arrow batches that fit an expression."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from quiver.records.arrow_arrays import number_array
from quiver.search.language.expression import Columns, Expression


def fitting(where: Expression, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of a reader (each of one partition and priority) without what does not fit, and without empty ones."""
    for batch in batches:
        rows = [row for chunk in where.select(_columns(batch)) for row in chunk]
        if rows:
            yield batch if len(rows) == batch.num_rows else batch.take(number_array(np.array(rows)))


def _columns(batch: pa.RecordBatch) -> Columns:
    return Columns(
        value=batch.column("value"),
        key=batch.column("key"),
        headers=batch.column("headers"),
        timestamps=batch.column("timestamp").cast("int64"),
        offsets=batch.column("offset").to_pylist(),
        partition=batch.column("partition")[0].as_py(),
        priority=batch.column("priority")[0].as_py(),
    )
