"""Fills a topic with a number of bytes, and reads it all, as roles."""

import quiver
from benchmarks.payload import payload
from benchmarks.roles import Watch

CHUNK = 1_000


def fill(address: str, topic: str, count: int, size: int, watch: Watch) -> None:
    values = [payload(size)] * CHUNK
    with quiver.connect(address) as client, client.producer(topic) as producer:
        watch.start()
        for start in range(0, count, CHUNK):
            producer.send_many(values if count - start >= CHUNK else values[: count - start])
        producer.flush()
        watch.stop()


def drain(address: str, topic: str, count: int, watch: Watch) -> None:
    received = 0
    with quiver.connect(address) as client, client.read(topic, start="earliest") as reader:
        watch.start()
        for batch in reader.batches():
            received += batch.num_rows
            if received >= count:
                break
        watch.stop()
