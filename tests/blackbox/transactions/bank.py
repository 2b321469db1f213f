"""The bank of the tests of transactions: its workers, what they say they did, and its books.

Every transfer makes two entries of one transaction, in partitions by account, together with the offset or the ack of
the order it came from.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blackbox.processes.broker_process import BrokerProcess
from blackbox.transactions.bank_worker import ENTRIES

LONG = bool(os.environ.get("QUIVER_LONG"))
TRANSFERS = 4_000 if LONG else 150
"""Of each kind."""
KINDS = ("stream", "queue")
ACCOUNTS = 20
WORKERS = 3 if LONG else 2
"""Of each kind."""
SECONDS = 1_200 if LONG else 90
SEED = int(os.environ.get("QUIVER_CHAOS_SEED", "0")) or (random.SystemRandom().randrange(1, 2**31) if LONG else 7)
WORKER = Path(__file__).parent / "bank_worker.py"


class Bank:
    """The workers, what they say they did, and the books as a committed reader sees them."""

    def __init__(
        self, broker: BrokerProcess, directory: Path, chance: random.Random, kinds: Sequence[str] = KINDS
    ) -> None:
        self.broker = broker
        self.kinds = kinds
        self.chance = chance
        self.directory = directory
        self.workers: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.seen: dict[tuple[int, int], str] = {}
        """Transfer and account of every entry, and its attempt."""
        self.sum = 0
        self.orders: list[int] = []
        """The transfers to be made."""
        self.positions = dict.fromkeys(range(4), 0)
        self.complete_audits = 0

    def open(self, q: Any) -> None:
        for kind in self.kinds:
            q.topics.create(f"orders-{kind}", partitions=3)
            with q.producer(f"orders-{kind}") as producer:
                for number in range(TRANSFERS):
                    source, target = self.chance.sample(range(ACCOUNTS), 2)
                    order = {"id": number + (0 if kind == "stream" else TRANSFERS), "from": source, "to": target}
                    self.orders.append(order["id"])
                    producer.send(json.dumps({**order, "amount": self.chance.randint(1, 100)}))
        q.topics.create(ENTRIES, partitions=len(self.positions))

    def keep_workers(self) -> None:
        """Starts those that are not there."""
        for kind in self.kinds:
            for number in range(WORKERS):
                process = self.workers.get((kind, number))
                if process is None or process.poll() is not None:
                    command = [sys.executable, str(WORKER), self.broker.address, kind, str(number)]
                    path = self.directory / f"{kind}-{number}.txt"
                    self.workers[kind, number] = subprocess.Popen([*command, str(path)])

    def kill_worker(self) -> None:
        self.chance.choice(list(self.workers.values())).kill()

    def close(self) -> None:
        for process in self.workers.values():
            process.kill()
            process.wait()

    def notes(self) -> list[list[Any]]:
        """What all workers have written, line by line."""
        lines = [line for path in self.directory.glob("*-*.txt") for line in path.read_text().splitlines()]
        return [json.loads(line) for line in lines]

    def committed(self) -> set[int]:
        """Transfers whose commit was answered."""
        return {transfer for words in self.notes() if words[0] == "committed" for transfer in words[2:]}

    def audit(self, q: Any) -> None:
        """Reads on: nothing is there twice. Once all that was written before is read, what was answered is there as a
        whole; and when no transfer is there by half, the sum is right."""
        answered, written = self.committed(), self._written()
        with q.read(ENTRIES, start=self.positions, end="latest") as reader:
            for message in reader:
                self._book(json.loads(message.value))
            self.positions.update(reader.positions)
        counts = self._counts()
        halves = {transfer for transfer, count in counts.items() if count == 1}
        # Readers of committed messages wait for the end of the earliest transaction that is open.
        if all(self.positions[partition] >= end for partition, end in written.items()):
            self.complete_audits += 1
            assert not answered - set(counts), "answered as committed, and not there"
            assert not answered & halves, "answered as committed, and half of it there"
        if not halves:
            assert self.sum == 0

    def _book(self, entry: dict[str, Any]) -> None:
        place = (entry["transfer"], entry["account"])
        assert place not in self.seen, f"{place} by {self.seen[place]} and again by {entry['attempt']}"
        self.seen[place] = entry["attempt"]
        self.sum += entry["change"]

    def _written(self) -> dict[int, int]:
        """The offset behind everything that was written, by partition."""
        _, topic = self.broker.request("GET", f"/topics/{ENTRIES}")
        return {int(number): offsets["latest"] for number, offsets in topic["partition_offsets"].items()}

    def _counts(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for transfer, _ in self.seen:
            counts[transfer] = counts.get(transfer, 0) + 1
        return counts

    def check_end(self) -> None:
        assert self.complete_audits > 5
        assert self._counts() == dict.fromkeys(self.orders, 2)
        assert self.sum == 0
        notes = self.notes()
        aborted = {words[1] for words in notes if words[0] == "aborted"}
        assert aborted, "some attempts fail"
        assert not aborted & set(self.seen.values()), "entries of an aborted transaction"
        assert not [words for words in notes if words[0] == "broken"]

    @property
    def is_done(self) -> bool:
        return len(self.seen) == 2 * len(self.orders)

    def check_orders_are_done(self) -> None:
        """Offsets and acks were part of the transactions: nothing is left to be done."""
        if "queue" in self.kinds:
            _, answer = self.broker.request("GET", "/topics/orders-queue/queues/bank-queue")
            assert (answer["ready"], answer["leased"], answer["retrying"], answer["dead"]) == (0, 0, 0, 0), answer
        if "stream" in self.kinds:
            _, answer = self.broker.request("GET", "/groups/bank-stream")
            assert answer["lag"] == 0, answer
