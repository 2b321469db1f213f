"""A bank: many transactional workers, kill -9 of workers and broker, and a reader that checks the books meanwhile.

Every transfer makes two entries of one transaction, in partitions by account, together with the offset or the ack of
the order it came from. `make chaos` runs it for longer.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
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

    def __init__(self, broker: BrokerProcess, directory: Path, chance: random.Random) -> None:
        self.broker = broker
        self.chance = chance
        self.directory = directory
        self.workers: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.seen: dict[tuple[int, int], str] = {}
        """Transfer and account of every entry, and its attempt."""
        self.sum = 0
        self.positions = dict.fromkeys(range(4), 0)
        self.complete_audits = 0

    def open(self, q: Any) -> None:
        for kind in KINDS:
            q.topics.create(f"orders-{kind}", partitions=3)
            with q.producer(f"orders-{kind}") as producer:
                for number in range(TRANSFERS):
                    source, target = self.chance.sample(range(ACCOUNTS), 2)
                    order = {"id": number + (0 if kind == "stream" else TRANSFERS), "from": source, "to": target}
                    producer.send(json.dumps({**order, "amount": self.chance.randint(1, 100)}))
        q.topics.create(ENTRIES, partitions=len(self.positions))

    def keep_workers(self) -> None:
        """Starts those that are not there."""
        for kind in KINDS:
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
        assert self._counts() == dict.fromkeys(range(2 * TRANSFERS), 2)
        assert self.sum == 0
        notes = self.notes()
        aborted = {words[1] for words in notes if words[0] == "aborted"}
        assert aborted, "some attempts fail"
        assert not aborted & set(self.seen.values()), "entries of an aborted transaction"
        assert not [words for words in notes if words[0] == "broken"]

    @property
    def is_done(self) -> bool:
        return len(self.seen) == 4 * TRANSFERS


@pytest.mark.timeout(SECONDS + 60)
def test_the_sum_never_changes(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    broker = start_broker("--native-port", str(free_port()))
    bank = Bank(broker, tmp_path, chance)
    with quiver.connect(broker.address) as q:
        bank.open(q)
        try:
            _open_for_business(bank, q)
        finally:
            bank.close()
        bank.audit(q)
        bank.check_end()
        for kind in KINDS:
            _check_orders_are_done(broker, kind)
        assert q.transactions.list() == [] or all(t.state != "open" for t in q.transactions.list())


def _open_for_business(bank: Bank, q: Any) -> None:
    """Until all transfers are booked; the broker is killed at each third of them, workers all the time."""
    kills = [4 * TRANSFERS // 3, 8 * TRANSFERS // 3]

    def go_on() -> bool:
        bank.keep_workers()
        bank.audit(q)
        if bank.chance.random() < 0.02:
            bank.kill_worker()
        if kills and len(bank.seen) >= kills[0]:
            kills.pop(0)
            bank.broker.restart(kill=True)
        return bank.is_done

    wait_until(go_on, SECONDS, "all transfers are booked")
    assert not kills, "the broker was killed each time"


def _check_orders_are_done(broker: BrokerProcess, kind: str) -> None:
    """Offsets and acks were part of the transactions: nothing is left to be done."""
    if kind == "queue":
        _, answer = broker.request("GET", "/topics/orders-queue/queues/bank-queue")
        assert (answer["ready"], answer["leased"], answer["retrying"], answer["dead"]) == (0, 0, 0, 0), answer
    else:
        _, answer = broker.request("GET", "/groups/bank-stream")
        assert answer["lag"] == 0, answer
