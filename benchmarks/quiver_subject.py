"""Quiver through its public SDK, in the ways a user can choose: how to publish, how to read, how durable."""

import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal, Protocol

import quiver
from benchmarks.payload import Payload, age_seconds, cut, paced, stamped
from benchmarks.roles import Watch
from benchmarks.subject import KEYS, Subject

Durability = Literal["fsync", "interval"]
PublishWith = Literal["send_many", "send_arrow", "send"]
ReadWith = Literal["batches", "messages"]
CHUNK = 10_000
KEYED_CHUNK = 50_000
KEYED_BUFFER = "128MiB"
"""As Kafka's client has it for many partitions."""


class Served(Protocol):
    """A broker, or several nodes."""

    @property
    def address(self) -> str: ...

    @property
    def pids(self) -> list[int]: ...


class QuiverSubject(Subject):
    """Uses a broker that somebody else has started."""

    large_share = 0.1

    def __init__(
        self, name: str, broker: Served, *, durability: Durability, publish_with: PublishWith, read_with: ReadWith
    ) -> None:
        super().__init__()
        self.name = name
        self.durability = self._level = durability
        self.publish_with = publish_with
        self.read_with = read_with
        self.client = f"quiver SDK; producer.{publish_with}(), " + (
            "read().batches()" if read_with == "batches" else "read(), a message at a time"
        )
        self.version = f"Quiver {quiver.__version__}"
        self.address = broker.address
        self.resets = 0
        self.bulk_messages = 3_000_000 if publish_with == "send" else 8_000_000
        self.both_messages = 2_000_000 if publish_with == "send" else 6_000_000
        self.work_messages = 500_000 if (publish_with, durability) == ("send_many", "fsync") else 0
        self.keyed_messages = 1_000_000 if publish_with == "send_many" else 0
        self.has_latency = publish_with == "send_many"
        self.compressions = ("lz4",) if publish_with == "send_many" else ()
        self._broker = broker

    @property
    def topic(self) -> str:
        return f"{self.name}-{self.resets}"

    def missing(self) -> str | None:
        return None

    def start(self, scratch: Path) -> None:
        pass

    def pids(self) -> list[int]:
        return self._broker.pids

    def reset(self) -> None:
        self.reset_wide(1)

    def reset_wide(self, partitions: int) -> None:
        with quiver.connect(self.address) as client:
            if self.resets:
                client.topics.delete(self.topic)
            self.resets += 1
            client.topics.create(self.topic, partitions=partitions, durability=self._level)

    def stop(self) -> None:
        if self.resets:
            with quiver.connect(self.address) as client:
                client.topics.delete(self.topic)

    def produce(self, count: int, payload: Payload, watch: Watch) -> None:
        self._publish(getattr(self, f"_{self.publish_with}"), count, payload, watch)

    def produce_keyed(self, count: int, payload: Payload, watch: Watch) -> None:
        self._publish(_send_keyed, count, payload, watch, max_buffer_bytes=KEYED_BUFFER)

    def _publish(self, send: Callable[..., None], count: int, payload: Payload, watch: Watch, **options: Any) -> None:
        with (
            quiver.connect(self.address) as client,
            client.producer(self.topic, compression=payload.compression, **options) as producer,
        ):
            before = message_count(client, self.topic)
            send(producer, count, payload, watch)
            producer.flush()
            watch.stop()
            stored = message_count(client, self.topic) - before
        if stored != count:
            raise RuntimeError(f"{stored} messages are stored after {count} were published")

    def consume(self, count: int, watch: Watch) -> None:
        received = 0
        with quiver.connect(self.address) as client, client.read(self.topic, start="earliest") as reader:
            watch.start()
            if self.read_with == "batches":
                for batch in reader.batches():
                    received += batch.num_rows
                    if received >= count:
                        break
            else:
                for message in reader:
                    received += message.value is not None
                    if received == count:
                        break
            watch.stop()

    def work(self, count: int, batch: int, watch: Watch) -> None:
        """Acks gather for a few milliseconds and are on disk before they are answered; all are when it is closed."""
        done = 0
        with quiver.connect(self.address) as client:
            with client.work(self.topic, group="bench", max_messages=batch if batch > 1 else CHUNK) as work:
                watch.start()
                if batch > 1:
                    for jobs in work.batches():
                        with jobs:
                            done += len(jobs)
                        if done >= count:
                            break
                else:
                    for job in work:
                        with job:
                            done += job.value is not None
                        if done == count:
                            break
            watch.stop()
            depth = client.queues.depth(self.topic, "bench")
        if done != count or depth.ready or depth.leased or depth.retrying:
            raise RuntimeError(f"{done} of {count} messages were received and acked: {depth}")

    def produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        pool, took = payload.endless(count), list[float]()
        with quiver.connect(self.address) as client:
            client.topics.describe(self.topic)
            watch.start()
            for _ in paced(count, rate):
                begin = time.monotonic()
                client.publish(self.topic, stamped(next(pool)))
                took.append(time.monotonic() - begin)
            watch.stop()
        return took

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        ages: list[float] = []
        with quiver.connect(self.address) as client, client.read(self.topic, start="earliest") as reader:
            watch.start()
            for message in reader:
                ages.append(age_seconds(message.value or b""))
                if len(ages) == count:
                    break
            watch.stop()
        return ages

    def _send_many(self, producer: Any, count: int, payload: Payload, watch: Watch) -> None:
        chunks = payload.chunks(count, CHUNK)
        watch.start()
        for values in chunks:
            producer.send_many(values)

    def _send_arrow(self, producer: Any, count: int, payload: Payload, watch: Watch) -> None:
        import pyarrow

        pool = payload.different(count)
        table = pyarrow.table({"value": pyarrow.array(pool, pyarrow.binary())})
        slices = cycle([table.slice(start, CHUNK) for start in range(0, len(pool), CHUNK)])
        watch.start()
        left = count
        while left > 0:
            rows = next(slices)
            producer.send_arrow(rows.slice(0, left))
            left -= rows.num_rows

    def _send(self, producer: Any, count: int, payload: Payload, watch: Watch) -> None:
        send, pool = producer.send, islice(payload.endless(count), count)
        watch.start()
        for body in pool:
            send(body)


def _send_keyed(producer: Any, count: int, payload: Payload, watch: Watch) -> None:
    values, keys = payload.chunks(count, KEYED_CHUNK), [f"key-{number}".encode() for number in range(KEYS)]
    keyed = zip(
        values, cut(cycle([keys[i : i + KEYED_CHUNK] for i in range(0, KEYS, KEYED_CHUNK)]), count), strict=True
    )
    watch.start()
    for chunk, its_keys in keyed:
        producer.send_many(chunk, keys=its_keys)


def message_count(client: Any, topic: str) -> int:
    """Messages in the topic, by its offsets."""
    return sum(latest - earliest for earliest, latest in client.topics.describe(topic).offsets)
