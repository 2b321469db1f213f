"""Members that join, leave, are killed and stopped, and a broker that is killed, while messages flow.

`make chaos` (QUIVER_LONG=1) runs ten times as long; QUIVER_CHAOS_ROUNDS and QUIVER_CHAOS_SEED choose otherwise.
"""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.groups import group_worker
from blackbox.groups.group_history import (
    GroupJournal,
    check_all_processed,
    check_committed_is_not_seen_again,
    check_one_owner_at_a_time,
    member_histories,
)
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until

ROUNDS = 5 * int(os.environ.get("QUIVER_CHAOS_ROUNDS", "50" if os.environ.get("QUIVER_LONG") else "5"))
SEED = int(os.environ.get("QUIVER_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
PARTITIONS = 6
MOST_WORKERS = 5
BURST = 20
BURST_EVERY_SECONDS = 0.01
SECONDS = 60.0


class Trickle(threading.Thread):
    """Sends a few messages at a time until `finish`; `acked` are partition and offset of what was acknowledged."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.acked: set[tuple[int, int]] = set()
        self.error: BaseException | None = None
        self._address, self._topic = address, topic
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            with quiver.connect(self._address) as q, q.producer(self._topic, linger="1ms") as producer:
                while not self._stopping.wait(BURST_EVERY_SECONDS):
                    futures = [producer.send(b"x", partition=n % PARTITIONS) for n in range(BURST)]
                    self.acked |= {future.result(SECONDS)[1:] for future in futures}
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        self._stopping.set()
        self.join(SECONDS)
        assert not self.is_alive(), "the producer hangs"
        if self.error is not None:
            raise self.error


class Crowd:
    """The workers of one group, and the broker they use."""

    def __init__(self, broker: BrokerProcess, directory: Path, chance: random.Random) -> None:
        self._broker, self._directory, self._chance = broker, directory, chance
        self._running: list[subprocess.Popen[bytes]] = []
        self._stopped: list[subprocess.Popen[bytes]] = []
        self._count = 0
        self.ended: list[subprocess.Popen[bytes]] = []
        self.stopped: set[str] = set()

    def join(self, commits: str | None = None) -> None:
        if len(self._running) >= MOST_WORKERS:
            return self.leave()
        self._count += 1
        name = f"w{self._count}"
        command = [sys.executable, group_worker.__file__, self._broker.address, "orders", "billing"]
        command += [str(self._directory / f"{name}.notes"), commits or self._chance.choice(["auto", "manual"])]
        with (self._directory / f"{name}.log").open("wb") as log:
            self._running.append(subprocess.Popen(command, stdout=log, stderr=log))
        return None

    def leave(self) -> None:
        if worker := self._pick():
            worker.send_signal(signal.SIGTERM)
            self.ended.append(worker)

    def kill(self) -> None:
        if worker := self._pick():
            worker.kill()
            worker.wait()

    def stop(self) -> None:
        """Until `go_on`: for shorter or for longer than the session."""
        if worker := self._pick():
            worker.send_signal(signal.SIGSTOP)
            self._stopped.append(worker)
            self.stopped.add(Path(str(worker.args[5])).stem)  # type: ignore[index]

    def go_on(self) -> None:
        while self._stopped:
            worker = self._stopped.pop()
            worker.send_signal(signal.SIGCONT)
            self._running.append(worker)

    def kill_broker(self) -> None:
        self._broker.restart(kill=True)

    def restart_broker(self) -> None:
        self._broker.restart()

    def do_something(self) -> None:
        actions: list[Callable[[], Any]] = [self.join, self.leave, self.kill, self.stop, self.go_on]
        weights = [8, 2, 2, 4, 2]
        self._chance.choices([*actions, self.kill_broker, self.restart_broker], [*weights, 2, 1])[0]()

    def finish(self) -> None:
        """Lets everybody leave; no worker may have ended with an error."""
        self.go_on()
        while self._running:
            self.leave()
        for worker in self.ended:
            assert worker.wait(SECONDS) in (0, -signal.SIGTERM), self.logs()  # a signal may come before its handler

    def close(self) -> None:
        for worker in (*self._running, *self._stopped, *self.ended):
            worker.kill()
            worker.wait()

    def notes(self) -> list[Path]:
        return sorted(self._directory.glob("*.notes"))

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in self._directory.glob("*.log"))[-8000:]

    def _pick(self) -> "subprocess.Popen[bytes] | None":
        return self._running.pop(self._chance.randrange(len(self._running))) if self._running else None


def has_no_lag(q: Any) -> bool:
    parts = q.groups.describe("billing").partitions
    return len(parts) == PARTITIONS and not any(part.lag for part in parts)


@pytest.mark.timeout(120 + 5 * ROUNDS)
@pytest.mark.long
def test_a_group_lives_through_everything(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    print(f"seed {SEED}, {ROUNDS} rounds")
    chance = random.Random(SEED)
    broker = start_broker("--native-port", str(free_port()))
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=PARTITIONS, durability="interval")
    load = Trickle(broker.address, "orders")
    crowd = Crowd(broker, tmp_path, chance)
    try:
        load.start()
        crowd.join()
        for _ in range(ROUNDS):
            wanted = len(load.acked) + chance.randint(BURST, 30 * BURST)
            wait_until(lambda count=wanted: len(load.acked) >= count or load.error, SECONDS, f"acks, seed {SEED}")
            crowd.do_something()
        load.finish()
        crowd.finish()
        crowd.join("auto")
        crowd.join("auto")
        with quiver.connect(broker.address) as q:
            wait_until(lambda: has_no_lag(q), SECONDS, f"everything is committed, seed {SEED}")
        crowd.finish()
    finally:
        crowd.close()
    broker.kill()
    histories = member_histories(crowd.notes())
    print(f"{len(load.acked)} messages, {len(histories)} memberships")
    check_all_processed(histories, load.acked)
    check_committed_is_not_seen_again(histories)
    check_one_owner_at_a_time(histories, crowd.stopped)
    journal = GroupJournal(broker.data_dir)
    print(f"generation {journal.check_owners()}, committed {journal.check_offsets()}")
