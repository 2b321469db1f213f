"""Each check of the simulator finds a fault that is planted in a history, and nothing in one without."""

from types import SimpleNamespace
from typing import Any

import pytest

from quiver.model.errors import LeaseLost, TopicExists, TopicNotFound
from quiver.system.randomness import seeded
from quiver.testing.simulation.history import Event, History
from quiver.testing.simulation.workloads.bank import BankWorkload
from quiver.testing.simulation.workloads.catalogue import CatalogueWorkload
from quiver.testing.simulation.workloads.delays import DelayWorkload
from quiver.testing.simulation.workloads.group import GroupWorkload
from quiver.testing.simulation.workloads.log import LogWorkload
from quiver.testing.simulation.workloads.port import Workload
from quiver.testing.simulation.workloads.queue import QueueWorkload
from quiver.testing.simulation.world import World


@pytest.fixture
def history() -> History:
    return History(World(1))


def found(workload: Workload) -> str:
    return "; ".join(violation.sentence for violation in workload.check())


def done(history: History, what: str, actor: str = "somebody", result: Any = None, **details: Any) -> Event:
    event = history.saw(what, actor, **details)
    event.result = result
    return event


def test_log(history: History) -> None:
    log = LogWorkload(history, seeded("1"), "fsync")
    log._partitions = 1
    done(history, "publish", value="p.0", result=SimpleNamespace(partition=0, offset=0))
    log._stored, log._seen = [(0, 0, "p.0"), (0, 1, "p.1")], {"reader": [(0, 0, "p.0")]}
    assert not found(log)
    log._stored = [(0, 1, "p.1")]
    assert "acked at (0, 0) and is at None" in found(log)
    assert "reader got" in found(log)
    log._stored = [(0, 0, "p.0"), (0, 1, "p.0")]
    assert "is stored at" in found(log)
    log._stored, log._seen = [(0, 0, "p.1"), (0, 1, "p.0")], {}
    assert "after p.1 of the same producer" in found(log)


def test_queue(history: History) -> None:
    queue = QueueWorkload(history, seeded("1"), "fsync")
    queue._keys = {"a": (0, 0, "k")}
    assert "a is lost in plain" in found(queue)
    for group in ("plain", "keyed"):
        done(history, "deliver", value="a", group=group, attempt=1)
        done(history, "ack", value="a", group=group, attempt=1).ended = 1.0
    assert not found(queue)
    queue._dead_letters["plain", "a"] = ["rejected"]
    assert "was acked in plain and is a dead letter" in found(queue)
    assert "that nobody rejected" in found(queue)
    queue._dead_letters.clear()
    done(history, "deliver", value="a", group="plain", attempt=2).began = 2.0
    assert "was acked in plain and delivered again" in found(queue)


def test_order_of_keys(history: History) -> None:
    queue = QueueWorkload(history, seeded("1"), "fsync")
    queue._keys = {"a": (0, 0, "k"), "b": (0, 1, "k")}
    queue._dead_letters["plain", "a"] = queue._dead_letters["plain", "b"] = ["max_attempts"]
    queue._dead_letters["keyed", "b"] = ["max_attempts"]
    done(history, "deliver", "one", value="b", group="keyed", attempt=1)
    late = done(history, "ack", "two", value="a", group="keyed", attempt=1)
    late.began = 5.0
    assert "b overtook a" in found(queue)
    late.began = 0.0
    assert not found(queue)


def test_delays(history: History) -> None:
    delays = DelayWorkload(history, seeded("1"), "fsync", steps_clocks=False)
    done(history, "publish", value="a", delay=5.0)
    assert "is lost" in found(delays)
    delays._stored["a"] = [(0, 0)]
    seen = done(history, "deliver", value="a")
    assert "before its time" in found(delays)
    seen.began = 5.0
    assert not found(delays)
    done(history, "cancel", value="a")
    assert "was cancelled" in found(delays)


def test_bank(history: History) -> None:
    bank = BankWorkload(history, seeded("1"), "fsync")
    transfer = done(history, "transfer", transfer="t")
    assert "t was committed and is lost" in found(bank)
    bank._entries["t", "debit"] = 1
    assert "in part" in found(bank)
    assert "sum up to -1" in found(bank)
    bank._entries["t", "credit"] = 1
    assert not found(bank)
    transfer.outcome = "refused"
    assert "was aborted and is there" in found(bank)
    bank._asked = ["r"]
    assert "r was never carried out" in found(bank)


def _look(*owners: list[tuple[str, int]]) -> Any:
    return SimpleNamespace(generation=1, members=[SimpleNamespace(partitions=held) for held in owners])


def test_group(history: History) -> None:
    group = GroupWorkload(history, seeded("1"), "fsync")
    group._stored = {"a": (0, 0)}
    assert "never read" in found(group)
    done(history, "read", value="a", partition=0, offset=0, member="m")
    done(history, "commit", partition=0, offset=0, member="m")
    look = done(history, "look", result=_look([("t", 0)]), committed={0: 1})
    look.began = look.ended = 2.0
    assert not found(group)
    look.details["committed"] = {0: 0}
    assert "committed up to 1" in found(group)
    look.result = _look([("t", 0)], [("t", 0)])
    assert "two owners" in found(group)
    done(history, "read", value="a", partition=0, offset=0, member="m")
    assert "came after offset 0" in found(group)


def test_catalogue(history: History) -> None:
    catalogue = CatalogueWorkload(history, seeded("1"))

    def request(what: str, began: float, ended: float, error: Exception | None = None, count: int = 3) -> Event:
        event = done(history, what, topic="first", count=count, result=SimpleNamespace(offsets=[(0, 0)] * count))
        event.began, event.ended = began, ended
        if error is not None:
            event.outcome, event.error = "refused", f"{type(error).__name__}: {error}"
        return event

    request("create", 1, 2)
    request("create", 1.5, 3, TopicExists(topic="first"))
    request("describe", 4, 5)
    assert not found(catalogue)
    vanished = request("describe", 6, 7, TopicNotFound(topic="first"))
    assert "no order of the requests" in found(catalogue)
    request("delete", 5, 9).outcome = "unknown"
    assert not found(catalogue), "the delete may have counted"
    vanished.outcome, vanished.error, vanished.details["count"] = "ok", "", 2
    vanished.result = SimpleNamespace(offsets=[(0, 0)] * 2)
    assert "no order of the requests" in found(catalogue)


def test_what_a_fault_puts_in_doubt(history: History) -> None:
    sure = history.begin("ack", "one")
    history.end(sure, LeaseLost("over"))
    history.fault("connection cut")
    doubtful = history.begin("ack", "one")
    history.end(doubtful, LeaseLost("over"))
    assert (sure.outcome, doubtful.outcome) == ("refused", "unknown")
    history._world.now = 60.0
    later = history.begin("ack", "one")
    history.end(later, LeaseLost("over"))
    assert later.outcome == "refused"
    assert not later.may_count
