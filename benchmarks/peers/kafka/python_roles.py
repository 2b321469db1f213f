"""The roles on confluent-kafka, which is librdkafka (C) for Python."""

import os
import time
from itertools import islice
from typing import Any

from benchmarks.payload import Payload, age_seconds, paced, stamped
from benchmarks.roles import Watch

BATCH = 10_000


class PythonRoles:
    text = f"confluent-kafka; idempotent, batches of 1 MB, linger 50 ms; consume of {BATCH} messages, one commit each"

    def produce(self, address: str, topic: str, count: int, payload: Payload, watch: Watch) -> None:
        producer, bodies = _producer(address, topic, payload, linger_ms=50), payload.endless(count)
        delivered = 0

        def on_delivery(error: Any, message: Any) -> None:
            nonlocal delivered
            if error is not None:
                raise RuntimeError(str(error))
            delivered += 1

        producer.produce("warm-up", next(bodies))  # the first message waits for a producer id
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

    def consume(self, address: str, topic: str, count: int, watch: Watch) -> None:
        consumer = _consumer(address, topic)
        received = 0
        watch.start()
        while received < count:
            messages = consumer.consume(BATCH, timeout=0.1)
            received += sum(1 for message in messages if message.value() is not None)
            if messages:
                consumer.commit(asynchronous=True)
        watch.stop()

    def produce_paced(
        self, address: str, topic: str, count: int, payload: Payload, rate: float, watch: Watch
    ) -> list[float]:
        producer, bodies, took = _producer(address, topic, payload, linger_ms=0), payload.endless(count), []
        watch.start()
        for _ in paced(count, rate):
            begin = time.monotonic()
            producer.produce(topic, stamped(next(bodies)))
            producer.flush()
            took.append(time.monotonic() - begin)
        watch.stop()
        return took

    def consume_stamped(self, address: str, topic: str, count: int, watch: Watch) -> list[float]:
        consumer = _consumer(address, topic)
        ages: list[float] = []
        watch.start()
        while len(ages) < count:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                ages.append(age_seconds(message.value()))
        watch.stop()
        return ages


def _producer(address: str, topic: str, payload: Payload, linger_ms: int) -> Any:
    import confluent_kafka

    settings = {
        "bootstrap.servers": address,
        "enable.idempotence": True,
        "linger.ms": linger_ms,
        "batch.size": 1_000_000,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 1_000_000,
        "compression.type": payload.compression,
    }
    producer = confluent_kafka.Producer(settings)
    producer.list_topics(topic, timeout=30)
    return producer


def _consumer(address: str, topic: str) -> Any:
    """A consumer that has its partition, so that joining the group is not timed."""
    import confluent_kafka

    settings = {
        "bootstrap.servers": address,
        "group.id": f"{topic}-{os.getpid()}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 10,
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    return consumer
