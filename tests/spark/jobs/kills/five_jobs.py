"""Five jobs that write, side by side in one session: replay, compact, ingest, a stream of SQL, and a redrive.

As a program it is a driver of its own: `five_jobs.py BOOTSTRAP PLACE NAME [MASTER]`.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import quiver
import quiver_spark
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess
from quiver_spark.jobs import compact, dead_letters, ingest, replay, sql
from quiver_spark.jobs.sql.stream import StreamSettings
from spark.topic_rows import sdk_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES, KEYS, FILES, DEAD = 40, 7, 3, 3
COMMITS = {"replay": b"replay/", "compact": b"compact/", "ingest": b"ingest/", "sql": b"spark/", "redrive": b".dlq"}
"""What the request contains by which a job takes effect."""


class FiveJobs:
    """Topics, files and dead letters under one name, the jobs over them, and what must be there in the end."""

    def __init__(self, place: Path, name: str) -> None:
        self.place, self.name = place, name

    @property
    def queue(self) -> str:
        """The topic that has dead letters."""
        return (self.place / "queue").read_text()

    def prepare(self, broker: BrokerProcess) -> None:
        with quiver.connect(broker.address) as client:
            client.topics.create(self.name, partitions=2)
            for target in ("copy", "last", "files", "sql"):
                client.topics.create(f"{self.name}-{target}", partitions=2)
            with client.producer(self.name) as producer:
                producer.send_many(
                    [b'{"id": %d}' % n for n in range(MESSAGES)], [b"k%d" % (n % KEYS) for n in range(MESSAGES)]
                )
        (self.place / "in").mkdir(parents=True)
        for number in range(FILES):
            (self.place / "in" / f"{number}.json").write_text(json.dumps({"file": number}) + "\n")
        queue = HttpQueue(broker)
        (self.place / "queue").write_text(queue.topic)
        queue.publish(*(f"d{number}" for number in range(DEAD)))
        for message in queue.receive_all(DEAD):
            queue.settle("reject", message, reason="no good")

    def run(self, spark: "SparkSession", bootstrap: str) -> None:
        """All of them at the same time; raises what the first of them has raised."""
        source = {"topics": self.name, "bootstrap": bootstrap, "localFiles": "false"}
        queue = {**source, "topics": self.queue}
        state, settings = self.place / "state", StreamSettings(str(self.place / "checkpoint"), once=True)
        query = f"select key, value from `{self.name}`"
        jobs: list[Any] = [
            lambda: replay.run(spark, source, f"{self.name}-copy", run_id=self.name, state=state),
            lambda: compact.run(spark, source, to=f"{self.name}-last"),
            lambda: ingest.run(spark, [str(self.place / "in")], f"{self.name}-files", bootstrap=bootstrap),
            lambda: sql.run_stream(spark, query, source, f"{self.name}-sql", settings),
            lambda: dead_letters.redrive(spark, queue),
        ]
        with ThreadPoolExecutor(len(jobs)) as pool:
            for running in [pool.submit(job) for job in jobs]:
                running.result()

    def check(self, broker: BrokerProcess) -> None:
        """Every row is there once."""

        def values(topic: str) -> list[bytes | None]:
            return sorted((row.value for row in sdk_rows(broker, topic)), key=repr)

        assert values(f"{self.name}-copy") == values(f"{self.name}-sql") == values(self.name)
        assert len(values(f"{self.name}-last")) == KEYS
        assert values(f"{self.name}-files") == [b'{"file": %d}' % number for number in range(FILES)]
        assert values(self.queue) == sorted(b"d%d" % (number // 2) for number in range(2 * DEAD))
        with quiver.connect(broker.address) as client:
            left = [each for each in client.transactions.list() if each.state == "open"]
        assert not [each for each in left if any(name.startswith(self.name) for name in dict(each.partitions))], left


if __name__ == "__main__":
    address, place, name, master = (*sys.argv[1:], "local[2,4]")[:4]
    FiveJobs(Path(place), name).run(quiver_spark.session("five-jobs", master=master), address)
