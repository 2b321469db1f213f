"""Received runs as Arrow batches."""

import sys

import numpy as np
import pyarrow as pa

from quiver.client.read.arrow_batch import BATCH_SCHEMA, arrow_batch
from quiver.client.read.cursor import ReadFrame
from quiver.client.work.held_run import HeldRun
from quiver.records.arrow_arrays import number_array, repeated_text
from quiver.records.read import OpenFrame

JOB_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        *BATCH_SCHEMA,
        pa.field("attempt", pa.int32(), nullable=False),
    ]
)
"""What readers get, after the topic and before the attempt."""


def job_arrow(frame: OpenFrame, run: HeldRun) -> pa.RecordBatch:
    """All messages of a run; values are not copied."""
    plain = arrow_batch(ReadFrame(run.partition, frame, 0, sys.maxsize))
    count = plain.num_rows
    topics = repeated_text(run.topic, count)
    attempts = number_array(np.full(count, run.attempt, np.int32))
    return pa.RecordBatch.from_arrays([topics, *plain.columns, attempts], schema=JOB_SCHEMA)
