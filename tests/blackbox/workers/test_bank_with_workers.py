"""The bank on a broker of three workers, one of which is killed again and again."""

import random
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from blackbox.transactions.bank import SECONDS, SEED, Bank

WORKERS = 3
KILLS = 4
"""Fewer than the supervisor allows within a minute."""


@pytest.mark.timeout(SECONDS + 60)
def test_the_sum_never_changes_while_workers_are_killed(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    arguments = ("--workers", str(WORKERS), "--native-port", str(free_port()))
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
    """Until all transfers are booked; worker after worker is killed meanwhile, the coordinator first."""
    kills = [number * 2 * len(bank.orders) // (KILLS + 1) for number in range(1, KILLS + 1)]

    def go_on() -> bool:
        bank.keep_workers()
        bank.audit(q)
        if kills and len(bank.seen) >= kills[0]:
            bank.broker.kill_worker((KILLS - len(kills)) % WORKERS)
            kills.pop(0)
        return bank.is_done

    wait_until(go_on, SECONDS, "all transfers are booked")
    assert not kills, "workers were killed each time"
