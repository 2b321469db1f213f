"""Jobs whose driver or broker is killed at the moment of their commits: no row is missing or double in the end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from blackbox.processes.tcp_proxy import Fault, TcpProxy
from quiver.protocol.dead_letter_messages import RedriveDeadLetters
from quiver.protocol.transaction_messages import CommitTransaction
from spark.jobs.kills.five_jobs import COMMITS, FiveJobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS = 300


class CommitProxy:
    """A broker that never answers a commit. It gets those of the jobs in `done`, and not those of the others."""

    def __init__(self, broker: BrokerProcess, done: tuple[str, ...] = ()) -> None:
        self._done = done
        self.seen: set[str] = set()
        self.is_open = False
        self.proxy = TcpProxy(broker.address, self._choose, kinds=(CommitTransaction, RedriveDeadLetters))

    def _choose(self, count: int) -> Fault:
        packet = self.proxy.requests[-1]
        job = next((name for name, mark in COMMITS.items() if mark in packet), None)
        if self.is_open or job is None:
            return Fault.PASS
        self.seen.add(job)
        return Fault.CUT_AFTER if job in self._done else Fault.CUT_BEFORE

    def has_all(self) -> bool:
        return len(self.seen) == len(COMMITS)


def test_a_driver_that_is_killed_at_its_commits(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    """Of two jobs the broker has the commit, of the others it has not; all run again."""
    jobs, held = FiveJobs(tmp_path, "killed"), CommitProxy(spark_broker, ("compact", "sql", "redrive"))
    jobs.prepare(spark_broker)
    tests = Path(__file__).parents[3]
    with held.proxy, (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("five_jobs.py")),
                held.proxy.address,
                str(tmp_path),
                "killed",
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(tests)},
            start_new_session=True,
        )
        try:
            wait_until(lambda: held.has_all() or driver.poll() is not None, _SECONDS, "all jobs commit")
            assert held.has_all(), (tmp_path / "driver.log").read_text()[-4000:]
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        held.is_open = True
        jobs.run(spark, held.proxy.address)
    jobs.check(spark_broker)


def test_a_broker_that_is_killed_at_the_commits(
    spark: "SparkSession", start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """It is back before the jobs give up: they end well by themselves."""
    broker = start_broker("--native-port", str(free_port()))
    jobs, held = FiveJobs(tmp_path / "jobs", "restarted"), CommitProxy(broker)
    jobs.prepare(broker)
    problems: list[BaseException] = []

    def run() -> None:
        try:
            jobs.run(spark, held.proxy.address)
        except BaseException as error:
            problems.append(error)

    with held.proxy:
        running = threading.Thread(target=run)
        running.start()
        wait_until(lambda: held.has_all() or not running.is_alive(), _SECONDS, "all jobs commit")
        assert held.has_all(), problems
        broker.kill()
        held.is_open = True
        broker.start()
        running.join(_SECONDS)
        assert not running.is_alive()
    assert not problems, problems
    jobs.check(broker)
