"""The bank on a broker of several workers: single ones are killed, and all, with another number afterwards."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from blackbox.transactions.bank import LONG, SECONDS, SEED, Bank

WORKERS = 3
TROUBLES = ["worker 0", "worker 1", "pause 2", "then 2", "worker 0", "then 1", "then 3"]
"""One is killed, the coordinator first, or stopped for a while; or all are killed, and so many are started."""
PAUSED_SECONDS = 40 if LONG else 6
"""Longer than workers wait for each other; and longer than clients wait."""
STOPPED_SECONDS = 0.3
"""Long enough for owners to prepare what the coordinator does not decide any more."""


@pytest.mark.timeout(SECONDS + 60)
def test_the_sum_never_changes_while_workers_are_killed(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    arguments = ("--native-port", str(free_port()), "--workers", str(WORKERS))
    with BrokerProcess(tmp_path / "data", *arguments) as broker, quiver.connect(broker.address) as q:
        bank = Bank(broker, tmp_path, chance)
        bank.open(q)
        try:
            _open_for_business(bank, q)
        finally:
            bank.close()
        bank.audit(q)
        bank.check_end()
        bank.check_orders_are_done()


def _open_for_business(bank: Bank, q: Any) -> None:
    """Until all transfers are booked; one trouble after the other comes meanwhile."""
    troubles = list(TROUBLES)
    entries = 2 * len(bank.orders)

    def go_on() -> bool:
        bank.keep_workers()
        bank.audit(q)
        place = len(TROUBLES) - len(troubles) + 1
        if troubles and len(bank.seen) >= place * entries // (len(TROUBLES) + 1):
            what, number = troubles.pop(0).split()
            if what == "worker":
                bank.broker.kill_worker(int(number))
            elif what == "pause":
                _pause(bank.broker.workers[int(number)]["pid"], PAUSED_SECONDS)
            else:
                _start_with(bank.broker, number)
        return bank.is_done

    wait_until(go_on, SECONDS, "all transfers are booked")
    assert not troubles, "all of them came"


def _start_with(broker: BrokerProcess, number: str) -> None:
    """Kills all while commits wait for the coordinator; units have other owners then."""
    if broker.workers:
        _pause(broker.workers[0]["pid"], STOPPED_SECONDS, goes_on=False)
    broker.kill()
    broker.args = (*broker.args[:-1], number)
    broker.start()


def _pause(pid: int, seconds: float, *, goes_on: bool = True) -> None:
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, seconds + 10, "the pause is over")
    if goes_on:
        os.kill(pid, signal.SIGCONT)
