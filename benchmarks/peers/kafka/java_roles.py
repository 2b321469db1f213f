"""The roles on Kafka's own client: KafkaRoles.java in a process beside the role, which tells it when to begin."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.payload import Payload
from benchmarks.peers.kafka.installation import java_command
from benchmarks.roles import Watch
from benchmarks.subject import KEYS

JVM = ("-Xms768m", "-Xmx768m")
MIB = 1 << 20
BULK = {"batch.size": 1_000_000, "linger.ms": 50, "buffer.memory": 64 * MIB}
KEYED = {"batch.size": 65_536, "linger.ms": 100, "buffer.memory": 128 * MIB, "max.request.size": 8 * MIB}
CONSUME = {"max.poll.records": 10_000, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
CONSUME |= {"max.partition.fetch.bytes": 4 * MIB, "fetch.max.wait.ms": 10}
WARM_UP_MESSAGES, WARM_UP_BYTES = 300_000, 32 * MIB
"""The virtual machine compiles what it runs often; less than this and it is still at it when the time begins."""


class JavaRoles:
    text = "Kafka's Java client; idempotent, batches of 1 MB, linger 50 ms; polls of 10,000, commits without waiting"

    def __init__(self) -> None:
        self.classes = Path()
        """Where KafkaRoles was compiled to."""

    def produce(self, address: str, topic: str, count: int, payload: Payload, watch: Watch) -> None:
        self._produce(address, topic, count, payload, watch, BULK)

    def produce_keyed(self, address: str, topic: str, count: int, payload: Payload, watch: Watch) -> None:
        self._produce(address, topic, count, payload, watch, KEYED | {"keys": KEYS})

    def consume(self, address: str, topic: str, count: int, watch: Watch) -> None:
        options = {
            "topic": topic,
            "count": count,
            "warm_up": _warm_up(count, 100),
            "group.id": f"{topic}-{os.getpid()}",
        }
        self._play("consume", address, options | CONSUME, watch)

    def produce_paced(
        self, address: str, topic: str, count: int, payload: Payload, rate: float, watch: Watch
    ) -> list[float]:
        with _bodies_file(payload, count) as bodies:
            options = {"topic": topic, "count": count, "size": payload.size, "bodies": bodies, "rate": rate}
            return self._play("produce_paced", address, options | {"warm_up": count, "linger.ms": 0}, watch)

    def consume_stamped(self, address: str, topic: str, count: int, watch: Watch) -> list[float]:
        options = {"topic": topic, "count": count, "warm_up": count, "group.id": f"{topic}-{os.getpid()}"}
        return self._play("consume_stamped", address, options | CONSUME, watch)

    def _produce(
        self, address: str, topic: str, count: int, payload: Payload, watch: Watch, settings: dict[str, int]
    ) -> None:
        with _bodies_file(payload, count) as bodies:
            options = {"topic": topic, "count": count, "size": payload.size, "bodies": bodies}
            options |= {"compression.type": payload.compression, "warm_up": _warm_up(count, payload.size)}
            self._play("produce", address, options | settings, watch)

    def _play(self, role: str, address: str, options: dict[str, object], watch: Watch) -> list[float]:
        """Runs the role; returns the seconds of each message where it measures them."""
        given = {"role": role, "bootstrap.servers": address} | options
        arguments = [
            f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in given.items()
        ]
        command = java_command(*JVM, "KafkaRoles", *arguments, classes=self.classes)
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            _expect(process, "ready")
            watch.start()
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            cpu_ns, *took_ns = _expect(process, "done")
            watch.stop(cpu_seconds=int(cpu_ns) / 1e9)
        return [int(value) / 1e9 for value in took_ns]


def _warm_up(count: int, size: int) -> int:
    return min(count, WARM_UP_MESSAGES, WARM_UP_BYTES // size)


def _expect(process: subprocess.Popen[str], word: str) -> list[str]:
    """The rest of a line that begins with the word."""
    assert process.stdout is not None
    assert process.stderr is not None
    first, *rest = process.stdout.readline().split() or [""]
    if first != word:
        process.kill()
        raise RuntimeError(f"KafkaRoles said {first!r} instead of {word!r}:\n{process.stderr.read()[-2000:]}")
    return rest


@contextmanager
def _bodies_file(payload: Payload, count: int) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(prefix="quiver-bench-bodies-") as file:
        file.write(b"".join(payload.different(count)))
        file.flush()
        yield file.name
