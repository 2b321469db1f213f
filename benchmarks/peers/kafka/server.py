"""A Kafka broker of our own: one node in KRaft mode, broker and controller in one process."""

import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

from benchmarks.peers.kafka.installation import java_command
from benchmarks.servers.server import HOST, free_port, fresh_directory, spawn, wait_for_port

# What Kafka's own start script gives the virtual machine.
JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
CREATE_SECONDS = 300


class KafkaServer:
    """Used by whoever knows its address; the one who started it also has its process."""

    def __init__(self, flush_every_batch: bool) -> None:
        self.flush_every_batch = flush_every_batch
        self.address = ""

    def start(self, directory: Path) -> subprocess.Popen[bytes]:
        fresh_directory(directory)
        port, controller = free_port(), free_port()
        self.address = f"{HOST}:{port}"
        properties = directory / "server.properties"
        settings = _settings(directory / "data", port, controller)
        if self.flush_every_batch:
            settings["log.flush.interval.messages"] = "1"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        subprocess.run(
            java_command("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(properties)),
            check=True,
            capture_output=True,
        )
        server = spawn(java_command(*JVM, "kafka.Kafka", str(properties)), directory / "log")
        wait_for_port(port, server)
        return server

    def create(self, topic: str, partitions: int = 1) -> None:
        """Returns when every partition can be written."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined,unused-ignore]

        admin = self._admin()  # its answers come only while it lives
        for done in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            done.result(CREATE_SECONDS)
        deadline = time.monotonic() + CREATE_SECONDS
        while not _is_open(admin, topic, partitions):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} is not open after {CREATE_SECONDS} s")
            time.sleep(0.1)

    def delete(self, topic: str) -> None:
        admin = self._admin()
        for done in admin.delete_topics([topic]).values():
            done.result(CREATE_SECONDS)

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address})


def _settings(data: Path, port: int, controller: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(data),
        "log.segment.delete.delay.ms": "1000",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


def _is_open(admin: Any, topic: str, partitions: int) -> bool:
    """Leaders are named long before the broker has made their logs, a few syncs each; only then it knows offsets."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined,unused-ignore]

    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call,unused-ignore]
    wanted = {TopicPartition(topic, number): latest for number in range(partitions)}
    return all(answer.exception() is None for answer in admin.list_offsets(wanted, request_timeout=10).values())
