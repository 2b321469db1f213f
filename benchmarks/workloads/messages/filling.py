"""Fills a topic with a number of bytes, and reads it all, as roles."""

import numpy as np
import pyarrow as pa

import quiver
from benchmarks.payload import bodies
from benchmarks.roles import Watch

CHUNK = 1_000
ARROW_CHUNK = 10_000
DISTINCT = 1_000_000


def fill(address: str, topic: str, count: int, size: int, watch: Watch) -> None:
    values = bodies(size, CHUNK)
    with quiver.connect(address) as client, client.producer(topic) as producer:
        watch.start()
        for start in range(0, count, CHUNK):
            producer.send_many(values if count - start >= CHUNK else values[: count - start])
        producer.flush()
        watch.stop()


def fill_distinct(address: str, topic: str, count: int, size: int, partitions: int, watch: Watch) -> None:
    """A million different values, again and again: a file format that writes each one once has nothing to gain."""
    values = _random_values(min(count, DISTINCT), size)
    with quiver.connect(address) as client, client.producer(topic) as producer:
        watch.start()
        for start in range(0, count, ARROW_CHUNK):
            rows = min(ARROW_CHUNK, count - start)
            place = start // ARROW_CHUNK % partitions
            producer.send_arrow(values.slice(start % values.num_rows, rows), partition=place)
        producer.flush()
        watch.stop()


def _random_values(count: int, size: int) -> pa.RecordBatch:
    data = pa.py_buffer(np.random.default_rng(count).bytes(count * size))
    offsets = pa.py_buffer(np.arange(0, (count + 1) * size, size, dtype=np.int32))
    values = pa.Array.from_buffers(pa.binary(), count, [None, offsets, data])
    return pa.RecordBatch.from_arrays([values], ["value"])


def drain(address: str, topic: str, count: int, watch: Watch) -> None:
    received = 0
    with quiver.connect(address) as client, client.read(topic, start="earliest") as reader:
        watch.start()
        for batch in reader.batches():
            received += batch.num_rows
            if received >= count:
                break
        watch.stop()
