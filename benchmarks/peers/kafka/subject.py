"""Kafka as a subject: which client, and what an ack means."""

from pathlib import Path
from typing import Literal

from benchmarks.payload import Payload
from benchmarks.peers.kafka.installation import compile_roles, kafka_absence, kafka_version
from benchmarks.peers.kafka.java_roles import JavaRoles
from benchmarks.peers.kafka.python_roles import PythonRoles
from benchmarks.peers.kafka.server import KafkaServer
from benchmarks.roles import Watch
from benchmarks.subject import Subject

PAGE_CACHE = "written to the page cache, synced by the system (default)"
FLUSHED = "synced before each batch of a partition is acknowledged"
WARM_UP_TOPIC = "warm-up"


class Kafka(Subject):
    """`kafka`: Java client; `kafka-flushed`: the same, synced; `kafka-python`: the client of Python programs."""

    bulk_messages = 3_000_000
    both_messages = 1_000_000
    large_share = 0.2
    compressions = ("lz4",)

    def __init__(self, name: str, *, language: Literal["Java", "Python"], flushed: bool = False) -> None:
        super().__init__()
        self.name = name
        self.roles = JavaRoles() if language == "Java" else PythonRoles()
        self.client = self.roles.text
        self.durability = FLUSHED if flushed else PAGE_CACHE
        self.keyed_messages = 300_000 if language == "Java" else 0
        self.server = KafkaServer(flush_every_batch=flushed)
        self.resets = 0

    @property
    def topic(self) -> str:
        return f"bench-{self.resets}"

    def missing(self) -> str | None:
        return kafka_absence()

    def start(self, scratch: Path) -> None:
        directory = scratch / self.name
        self._processes = [self.server.start(directory)]
        if isinstance(self.roles, JavaRoles):
            self.roles.classes = compile_roles(directory / "classes")
        self.version = f"Kafka {kafka_version()}"
        self.server.create(WARM_UP_TOPIC)
        self.server.create(self.topic)

    def reset(self) -> None:
        self.reset_wide(1)

    def reset_wide(self, partitions: int) -> None:
        self.server.delete(self.topic)
        self.resets += 1
        self.server.create(self.topic, partitions)

    def produce(self, count: int, payload: Payload, watch: Watch) -> None:
        self.roles.produce(self.server.address, self.topic, count, payload, watch)

    def produce_keyed(self, count: int, payload: Payload, watch: Watch) -> None:
        if not isinstance(self.roles, JavaRoles):
            raise NotImplementedError
        self.roles.produce_keyed(self.server.address, self.topic, count, payload, watch)

    def consume(self, count: int, watch: Watch) -> None:
        self.roles.consume(self.server.address, self.topic, count, watch)

    def produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        return self.roles.produce_paced(self.server.address, self.topic, count, payload, rate, watch)

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        return self.roles.consume_stamped(self.server.address, self.topic, count, watch)
