"""Kafka with confluent-kafka, when QUIVER_BENCH_KAFKA names a broker (host:port) that we may create topics on."""

import os
import time
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.payload import age_seconds, endless_bodies, paced, stamped
from benchmarks.roles import Watch
from benchmarks.servers.presence import absence
from benchmarks.subject import Subject

BATCH = 10_000


class Kafka(Subject):
    name = "kafka"
    client = (
        f"confluent-kafka; idempotent, linger 5 ms, batches of 1 MB; consume of {BATCH} messages, one commit each"
    )
    durability = "written to the page cache, synced by the system (default)"
    bulk_messages = 1_000_000
    both_messages = 600_000

    def __init__(self) -> None:
        super().__init__()
        self.address = os.environ.get("QUIVER_BENCH_KAFKA", "")
        self.owner = os.getpid()
        self.resets = 0

    @property
    def topic(self) -> str:
        return f"quiver-bench-{self.owner}-{self.resets}"

    def missing(self) -> str | None:
        if not self.address:
            return "no broker is given (set QUIVER_BENCH_KAFKA=host:port)"
        return absence(module="confluent_kafka")

    def start(self, scratch: Path) -> None:
        self.version = f"Kafka at {self.address}"
        self._create()

    def stop(self) -> None:
        self._delete()

    def reset(self) -> None:
        self._delete()
        self.resets += 1
        self._create()

    def produce(self, count: int, size: int, watch: Watch) -> None:
        producer, bodies, topic = self._producer(linger_ms=5), endless_bodies(size), self.topic
        delivered = 0

        def on_delivery(error: Any, message: Any) -> None:
            nonlocal delivered
            if error is not None:
                raise RuntimeError(str(error))
            delivered += 1

        producer.produce(topic, next(bodies))  # the first message waits for a producer id
        producer.flush()
        watch.start()
        for body in islice(bodies, count):
            while True:
                try:
                    producer.produce(topic, body, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.flush()
        watch.stop()
        if delivered != count:
            raise RuntimeError(f"{delivered} of {count} messages were delivered")

    def consume(self, count: int, watch: Watch) -> None:
        consumer = self._consumer()
        received = 0
        watch.start()
        while received < count:
            messages = consumer.consume(BATCH, timeout=0.1)
            received += sum(1 for message in messages if message.value() is not None)
            if messages:
                consumer.commit(asynchronous=True)
        watch.stop()

    def produce_paced(self, count: int, size: int, rate: float, watch: Watch) -> list[float]:
        producer, bodies, took = self._producer(linger_ms=0), endless_bodies(size), []
        watch.start()
        for _ in paced(count, rate):
            begin = time.monotonic()
            producer.produce(self.topic, stamped(next(bodies)))
            producer.flush()
            took.append(time.monotonic() - begin)
        watch.stop()
        return took

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        consumer = self._consumer()
        ages: list[float] = []
        watch.start()
        while len(ages) < count:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                ages.append(age_seconds(message.value()))
        watch.stop()
        return ages

    def _producer(self, linger_ms: int) -> Any:
        import confluent_kafka  # type: ignore[import-not-found,unused-ignore]

        settings = {
            "bootstrap.servers": self.address,
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
        producer = confluent_kafka.Producer(settings)
        producer.list_topics(self.topic, timeout=30)
        return producer

    def _consumer(self) -> Any:
        """A consumer that has its partition, so that joining the group is not timed."""
        import confluent_kafka

        settings = {
            "bootstrap.servers": self.address,
            "group.id": f"{self.topic}-{os.getpid()}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
        }
        consumer = confluent_kafka.Consumer(settings)
        consumer.assign([confluent_kafka.TopicPartition(self.topic, 0, 0)])
        return consumer

    def _create(self) -> None:
        from confluent_kafka.admin import NewTopic  # type: ignore[import-not-found,unused-ignore]

        admin = self._admin()  # its answers come only while it lives
        for done in admin.create_topics([NewTopic(self.topic, 1, 1)]).values():
            done.result(30)

    def _delete(self) -> None:
        admin = self._admin()
        for done in admin.delete_topics([self.topic]).values():
            done.result(30)

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient  # type: ignore[import-not-found,unused-ignore]

        return AdminClient({"bootstrap.servers": self.address})
