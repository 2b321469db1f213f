"""A worker of the bank as a process: takes transfers and writes both entries of each in one transaction.

    python bank_worker.py ADDRESS stream|queue NUMBER FILE

Transfers come from the topic `orders-stream` (offsets are part of the transaction) or `orders-queue` (acks are).
Every attempt has a name of its own that is in its entries. Some attempts fail on purpose, in the middle or at the
end: `aborted NAME` is written to the file before. `committed NAME TRANSFER...` is written once the commit was
answered. A line is one write, so a kill takes nothing back.
"""

import contextlib
import itertools
import json
import os
import random
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import quiver
from quiver.model.errors import LeaseLost, MemberFenced, ProducerFenced, QuiverError

GROUPS = {"stream": "bank-stream", "queue": "bank-queue"}
ENTRIES = "entries"
AT_ONCE = 4
TRY_AGAIN_SECONDS = 0.05


class Oops(Exception):
    """A handler that fails."""


class Teller:
    def __init__(self, address: str, kind: str, number: str, path: str) -> None:
        self._address, self._kind = address, kind
        self._name = f"{kind}-{number}"
        self._chance = random.Random(f"{self._name} {os.getpid()}")
        self._attempts = (f"{self._name}/{os.getpid()}/{count}" for count in itertools.count())
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def run(self) -> None:
        """Until it is killed."""
        while True:
            try:
                with quiver.connect(self._address) as q:
                    self._serve_stream(q) if self._kind == "stream" else self._serve_queue(q)
            except (Oops, MemberFenced, ProducerFenced, LeaseLost):
                continue
            except QuiverError as error:
                if not error.retryable:
                    self._note("broken", repr(error))
                    raise
                threading.Event().wait(TRY_AGAIN_SECONDS)

    def _serve_stream(self, q: Any) -> None:
        """A transaction that fails ends the stream: what it read is read again."""
        options = {"auto_commit": False, "session_timeout": "2s", "heartbeat": "200ms", "max_wait": "50ms"}
        with q.stream("orders-stream", group=GROUPS["stream"], **options) as stream:
            for message in stream:
                with self._attempt(q) as (tx, attempt):
                    self._book(tx, attempt, [json.loads(message.value)])
                    tx.commit_offsets(stream)

    def _serve_queue(self, q: Any) -> None:
        with q.work("orders-queue", group=GROUPS["queue"], visibility="2s", max_messages=AT_ONCE) as work:
            for batch in work.batches():
                jobs = list(batch)
                with contextlib.suppress(Oops), self._attempt(q) as (tx, attempt):
                    self._book(tx, attempt, [json.loads(job.value) for job in jobs])
                    for job in jobs:
                        tx.ack(job)
                for job in jobs:
                    if not job.is_settled:
                        job.nack(delay=0, counted=False)

    @contextlib.contextmanager
    def _attempt(self, q: Any) -> Iterator[tuple[Any, str]]:
        attempt = next(self._attempts)
        self._transfers: list[int] = []
        with q.transaction(self._name, timeout="5s") as tx:
            yield tx, attempt
            self._fail_sometimes(attempt, 0.1)
        self._note("committed", attempt, *self._transfers)

    def _book(self, tx: Any, attempt: str, transfers: Sequence[dict[str, Any]]) -> None:
        for transfer in transfers:
            for account, change in ((transfer["from"], -transfer["amount"]), (transfer["to"], transfer["amount"])):
                entry = {"transfer": transfer["id"], "account": account, "change": change, "attempt": attempt}
                tx.publish(ENTRIES, json.dumps(entry), key=str(account))
                self._fail_sometimes(attempt, 0.04)
            self._transfers.append(transfer["id"])

    def _fail_sometimes(self, attempt: str, likelihood: float) -> None:
        if self._chance.random() < likelihood:
            self._note("aborted", attempt)
            raise Oops

    def _note(self, *words: object) -> None:
        os.write(self._file, (json.dumps(words) + "\n").encode())


if __name__ == "__main__":
    Teller(*sys.argv[1:]).run()
