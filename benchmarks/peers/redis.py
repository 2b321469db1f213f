"""Redis Streams with redis-py and hiredis: pipelined XADD, XREADGROUP, XACK."""

import itertools
import time
from pathlib import Path
from typing import Any

from benchmarks.payload import Payload, age_seconds, paced, stamped
from benchmarks.roles import Watch
from benchmarks.servers.presence import absence, find_program
from benchmarks.servers.server import HOST, free_port, fresh_directory, spawn, wait_for_port
from benchmarks.subject import Subject

KEY, GROUP, FIELD = "bench", "group", b"d"
BATCH = 1_000
PIPELINED_ACKS = 100


class Redis(Subject):
    name = "redis-streams"
    client = f"redis-py with hiredis; pipelines of {BATCH}, XREADGROUP of {BATCH}, one XACK a batch"
    durability = "append-only file, synced every second (usual setting)"
    bulk_messages = 200_000
    both_messages = 120_000
    work_messages = 150_000

    def missing(self) -> str | None:
        return absence(program="redis-server", found=find_program("redis-server"), module="redis")

    def start(self, scratch: Path) -> None:
        directory = fresh_directory(scratch / self.name)
        self.port = free_port()
        options = {
            "port": str(self.port),
            "bind": HOST,
            "dir": str(directory),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "auto-aof-rewrite-percentage": "0",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        server = spawn([str(find_program("redis-server")), *arguments], directory / "log")
        self._processes = [server]
        wait_for_port(self.port, server)
        self.version = f"redis-server {self._connect().info()['redis_version']}"

    def reset(self) -> None:
        client = self._connect()
        client.flushall()
        client.xgroup_create(KEY, GROUP, id="0", mkstream=True)

    def produce(self, count: int, payload: Payload, watch: Watch) -> None:
        client, items = self._connect(), itertools.cycle([{FIELD: body} for body in payload.different(count)])
        watch.start()
        for start in range(0, count, BATCH):
            pipeline = client.pipeline(transaction=False)
            for item in itertools.islice(items, min(BATCH, count - start)):
                pipeline.xadd(KEY, item)
            pipeline.execute()
        watch.stop()

    def consume(self, count: int, watch: Watch) -> None:
        client = self._connect()
        received = 0
        watch.start()
        while received < count:
            messages = self._read(client, BATCH)
            if messages:
                client.xack(KEY, GROUP, *[message[0] for message in messages])
            received += len(messages)
        watch.stop()

    def work(self, count: int, batch: int, watch: Watch) -> None:
        """Single acknowledgements are an XACK each, pipelined in hundreds: a round trip each is ten times slower."""
        client = self._connect()
        received = 0
        watch.start()
        while received < count:
            messages = self._read(client, max(batch, PIPELINED_ACKS))
            if batch > 1:
                client.xack(KEY, GROUP, *[message[0] for message in messages])
            else:
                pipeline = client.pipeline(transaction=False)
                for message in messages:
                    pipeline.xack(KEY, GROUP, message[0])
                pipeline.execute()
            received += len(messages)
        watch.stop()

    def produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        client, pool, took = self._connect(), payload.endless(count), []
        watch.start()
        for _ in paced(count, rate):
            begin = time.monotonic()
            client.xadd(KEY, {FIELD: stamped(next(pool))})
            took.append(time.monotonic() - begin)
        watch.stop()
        return took

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        client = self._connect()
        ages: list[float] = []
        watch.start()
        while len(ages) < count:
            messages = self._read(client, 100)
            ages.extend(age_seconds(message[1][FIELD]) for message in messages)
            if messages:
                client.xack(KEY, GROUP, *[message[0] for message in messages])
        watch.stop()
        return ages

    def _connect(self) -> Any:
        import redis

        client = redis.Redis(host=HOST, port=self.port)
        client.ping()
        return client

    def _read(self, client: Any, count: int) -> Any:
        answer = client.xreadgroup(GROUP, "reader", {KEY: ">"}, count=count, block=5_000)
        if not answer:
            return []
        return next(iter(answer.values()))[0] if isinstance(answer, dict) else answer[0][1]
