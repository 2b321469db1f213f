"""A bank: many transactional workers, kill -9 of workers and broker, and a reader that checks the books meanwhile.

`make chaos` runs it for longer.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from blackbox.transactions.bank import SECONDS, SEED, TRANSFERS, Bank


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
        bank.check_orders_are_done()
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
