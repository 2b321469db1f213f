"""Each check of the simulator finds a fault that is planted in a history, and nothing in one without."""

from types import SimpleNamespace
from typing import Any

from quiver.model.errors import LeaseLost, TopicExists, TopicNotFound
from quiver.system.randomness import seeded
from quiver.testing.simulation.history import Event, History
from quiver.testing.simulation.system.clock import EPOCH_MS, SimulatedClock
from quiver.testing.simulation.workloads.bank import BankWorkload
from quiver.testing.simulation.workloads.catalogue import CatalogueWorkload
from quiver.testing.simulation.workloads.delays import DelayWorkload
from quiver.testing.simulation.workloads.group import GroupWorkload
from quiver.testing.simulation.workloads.log import LogWorkload
from quiver.testing.simulation.workloads.queue import QueueWorkload
from unit.testing.planted_history import done, found


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


def test_searches(history: History) -> None:
    log = LogWorkload(history, seeded("1"), "fsync")
    log._stored = [(0, 0, "/p#1.0")]
    done(history, "publish", value="/p#1.0", result=SimpleNamespace(partition=0, offset=0))
    search = done(history, "search", producer="/p#", result=["/p#1.0"])
    search.began = 1.0
    assert not found(log)
    search.result = []
    assert "has not found /p#1.0" in found(log)
    search.began = 0.0
    assert not found(log), "it was acked while the search ran"
    search.result = ["/p#1.0", "/p#1.0", "/q#1.0"]
    assert "has found /p#1.0 2 times" in found(log)
    assert "has found /q#1.0 1 times" in found(log)


def test_queue(history: History) -> None:
    queue = QueueWorkload(history, seeded("1"), "fsync", SimulatedClock(history._world))
    queue._keys = {"a": (0, 0, "k")}
    assert "a is lost in plain" in found(queue)
    for group in ("plain", "keyed"):
        done(history, "deliver", value="a", group=group, attempt=1, lease=7)
        done(history, "ack", value="a", group=group, attempt=1, lease=7).ended = 1.0
    assert not found(queue)
    queue._dead_letters["plain", "a"] = ["rejected"]
    assert "was acked in plain and is a dead letter" in found(queue)
    assert "that nobody rejected" in found(queue)
    queue._dead_letters.clear()
    done(history, "deliver", value="a", group="plain", attempt=6, lease=6)
    assert "more than 5 times" in found(queue)
    assert "delivered again" not in found(queue), "that lease was given before"
    later = done(history, "deliver", value="a", group="plain", attempt=1, lease=8)
    assert "delivered again" not in found(queue), "a power cut has lost that lease before the ack"
    later.began = 2.0
    assert "was settled in plain (ack) and delivered again" in found(queue)


def test_a_repeat_that_finds_its_message_settled_by_another_consumer(history: History) -> None:
    queue = QueueWorkload(history, seeded("1"), "fsync", SimulatedClock(history._world))
    queue._keys = {"a": (0, 0, "k")}
    queue._dead_letters["keyed", "a"] = ["max_attempts"]
    history.fault("power cut")
    done(history, "reject", value="a", group="plain", attempt=1, lease=7).ended = 3.0
    assert "was rejected in plain and is no dead letter" in found(queue)
    done(history, "deliver", value="a", group="plain", attempt=1, lease=8).began = 1.0
    other = done(history, "ack", value="a", group="plain", attempt=1, lease=8)
    other.began = other.ended = 2.0
    assert not found(queue)
    done(history, "deliver", value="a", group="plain", attempt=2, lease=9).began = 4.0
    assert "was settled in plain (ack) and delivered again" in found(queue)


def test_an_ack_that_finds_a_dead_letter(history: History) -> None:
    queue = QueueWorkload(history, seeded("1"), "fsync", SimulatedClock(history._world))
    queue._keys = {"a": (0, 0, "k")}
    ack = done(history, "ack", value="a", group="plain", attempt=5, lease=7)
    queue._dead_letters["plain", "a"] = queue._dead_letters["keyed", "a"] = ["max_attempts"]
    assert "was acked in plain and is a dead letter" in found(queue)
    history.fault("connection cut")
    ack.ended = 20.0
    assert not found(queue), "its lease has ended before it was sent again"


def test_paused_queues(history: History) -> None:
    queue = QueueWorkload(history, seeded("1"), "fsync", SimulatedClock(history._world))
    pause, resume = done(history, "pause", group="plain"), done(history, "resume", group="plain")
    pause.ended, resume.began, resume.ended = 1.0, 5.0, 6.0
    publish, delivery = done(history, "publish", value="a"), done(history, "deliver", value="a", group="plain")
    publish.began, delivery.began = 2.0, 4.0
    delivery.details |= {"attempt": 1, "lease": 1}
    assert "a was delivered in plain while that was paused" in found(queue)
    publish.began = 0.5
    assert "paused" not in found(queue), "it may have been leased before"
    publish.began, resume.began = 2.0, 3.0
    assert "paused" not in found(queue)


def test_time_to_live(history: History) -> None:
    clock = SimulatedClock(history._world)
    queue = QueueWorkload(history, seeded("1"), "fsync", clock)
    publish = done(history, "publish", value="a", ttl=5)
    queue._keys = {"a": (0, 0, "k")}
    for group in ("plain", "keyed"):
        queue._dead_letters[group, "a"] = ["expired"]
    queue._expired = {("plain", "a"): EPOCH_MS + 5_000}
    assert not found(queue)
    queue._expired = {("plain", "a"): EPOCH_MS + 4_000}
    assert "a has expired in plain 1000 ms early" in found(queue)
    history._world.now = 1.0
    clock.step(2_000)
    assert not found(queue), "the clock was ahead when it expired, and may not have been afterwards"
    publish.details["ttl"] = None
    assert "without a time to live" in found(queue)


def test_order_of_keys(history: History) -> None:
    queue = QueueWorkload(history, seeded("1"), "fsync", SimulatedClock(history._world))
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
    clock = SimulatedClock(history._world)
    delays = DelayWorkload(history, seeded("1"), "fsync", clock)
    done(history, "publish", value="a", delay=5.0)
    assert "is lost" in found(delays)
    delays._stored["a"] = [(0, 0)]
    seen = done(history, "deliver", value="a")
    assert "before its time" in found(delays)
    clock.step(5_000)
    assert not found(delays), "the broker's clock says that it is time"
    clock.step(4_000)
    seen.began = 1.0
    assert not found(delays), "it was ahead when the message was published"
    clock._steps = [(0.0, 4_000)]
    seen.began = 0.9
    assert "0.100 s before its time" in found(delays)
    clock._steps = [(0.0, 0)]
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
    done(history, "work", transfer="t").ended = 1.0
    again = done(history, "work", transfer="t")
    again.began = 0.5
    assert "came again" not in found(bank)
    again.began = 2.0
    assert "t came again after it was committed" in found(bank)
    again.what, again.outcome, again.error = "move", "refused", "MemberFenced: it was silent for too long"
    assert "came again" not in found(bank)
    again.outcome = "ok"
    assert "t came again after it was committed" in found(bank)
    bank._asked = ["r"]
    assert "r was never carried out" in found(bank)


def _look(*owners: list[tuple[str, int]]) -> Any:
    return SimpleNamespace(generation=1, members=[SimpleNamespace(partitions=held) for held in owners])


def test_group(history: History) -> None:
    group = GroupWorkload(history, seeded("1"), "fsync")
    group._has_resets = False
    group._stored = {"a": ("t-0", 0)}
    assert "never read" in found(group)
    done(history, "assign", partition="t-0", member="m", generation=1)
    done(history, "read", value="a", partition="t-0", offset=0, member="m")
    done(history, "commit", partition="t-0", offset=0, member="m")
    look = done(history, "look", result=_look([("t", 0)]), committed={"t-0": 1})
    look.began = look.ended = 2.0
    assert not found(group)
    look.details["committed"] = {"t-0": 0}
    assert "committed up to 1" in found(group)
    look.result = _look([("t", 0)], [("t", 0)])
    assert "two owners" in found(group)
    done(history, "read", value="a", partition="t-0", offset=0, member="m")
    assert "a came again" in found(group)


def test_members_of_a_group(history: History) -> None:
    group = GroupWorkload(history, seeded("1"), "fsync")
    group._auto_commit = group._has_resets = False
    group._stored = {"a": ("t-0", 0), "b": ("t-0", 1), "c": ("t-0", 5)}
    for value, offset in (("a", 0), ("b", 1), ("c", 5)):
        if not offset:
            done(history, "assign", partition="t-0", member="m", generation=1)
        done(history, "read", value=value, partition="t-0", offset=offset, member="m")
    assert not found(group)
    done(history, "read", value="c", partition="t-0", offset=5, member="n")
    assert "that does not have its partition" in found(group)
    history.events.pop()
    done(history, "assign", partition="t-0", member="n", generation=2).began = 2.0
    first = done(history, "read", value="b", partition="t-0", offset=1, member="n")
    first.began = 3.0
    assert "b came before offset 0" in found(group), "nothing is committed"
    committed = done(history, "commit", partition="t-0", offset=0, member="n")
    committed.ended = 1.0
    history.events.insert(0, history.events.pop())
    assert not found(group)
    committed.details["offset"] = 1
    assert "b came again: 2 was reached or committed" in found(group)
    done(history, "commit", partition="t-0", offset=5, member="m")
    assert "m has committed t-0, which n has since generation 2" in found(group)
    done(history, "assign", partition="t-0", member="m", generation=3)
    done(history, "assign", partition="t-0", member="n", generation=2)
    committed = done(history, "commit", partition="t-0", offset=5, member="m")
    assert len(list(group._check_fencing())) == 1, "n has heard late of a generation that is over"
    committed.details["member"] = "n"
    assert "n has committed t-0, which m has since generation 3" in found(group)
    done(history, "assign", partition="t-0", member="a", generation=3)
    done(history, "commit", partition="t-0", offset=5, member="a")
    assert len(list(group._check_fencing())) == 2, "m has given it back, and a got it in the same generation"


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
