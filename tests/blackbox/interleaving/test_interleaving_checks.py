"""Each check finds what it is there for in a history with that fault planted, and nothing in one without."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blackbox.interleaving.checks.evidence import Evidence, Violation
from blackbox.interleaving.checks.number_checks import check_epochs_rise, check_generations_rise
from blackbox.interleaving.checks.queue_checks import (
    check_acked_stays_acked,
    check_key_order,
    check_one_holder,
    check_settled,
)
from blackbox.interleaving.checks.setting_checks import check_settings_hold
from blackbox.interleaving.checks.stored_checks import (
    check_copies,
    check_delays,
    check_producer_order,
    check_published,
    check_transactions,
)
from blackbox.interleaving.checks.stream_checks import (
    check_all_read,
    check_committed_never_goes_back,
    check_committed_was_read,
    check_read_order,
)
from blackbox.interleaving.checks.value_checks import check_errors, check_one_value
from blackbox.interleaving.final_state import DeadLetter, FinalState, Stored
from blackbox.interleaving.history import Event, Outcome, Recorder, read_events
from blackbox.interleaving.report import CHECKS, report, violations
from blackbox.interleaving.scenario import Group

QUEUE = Group("workers", "t", "queue")
LANES = Group("lanes", "t", "queue", is_ordered=True)
STREAM = Group("readers", "t", "stream")
POLL = Group("pollers", "t", "poll")
COPYING = Group("copying", "t", "queue", copies_to="copies")

M0, M1, M2 = (Stored("t", 0, number, f"m.{number}", "k") for number in range(3))


def event(
    what: str,
    began: float,
    ended: float | None = None,
    *,
    outcome: Outcome = "ok",
    of: Stored | None = None,
    group: Group | None = None,
    partition: int = 0,
    offset: int = -1,
    **details: Any,
) -> Event:
    """At `began`, over at once unless said otherwise; about a message, in a group."""
    return Event(
        what,
        "somebody",
        began,
        began if ended is None else ended,
        outcome,
        message=of.value if of else "",
        topic="t",
        group=group.name if group else "",
        partition=of.partition if of else partition,
        offset=of.offset if of else offset,
        details=details,
    )


def lease(what: str, began: float, of: Stored, attempt: int = 1, nonce: str = "a", **fields: Any) -> Event:
    """Something about a message under a lease."""
    receipt = f"t:{of.partition}:{of.offset}:{attempt}:{nonce}"
    fields.setdefault("group", QUEUE)
    return event(what, began, of=of, attempt=attempt, receipt=receipt, **fields)


Check = Callable[[Evidence], Iterator[Violation]]


def found(
    check: Check, events: Iterable[Event], stored: Iterable[Stored] = (), group: Group = QUEUE, **final: Any
) -> list[Violation]:
    return list(check(Evidence(events, FinalState(list(stored), **final), [group])))


def test_published_is_stored() -> None:
    answered = [event("publish", 1, of=M0)]
    assert not found(check_published, answered, [M0])
    assert not found(check_published, [event("publish", 1, of=M0, outcome="unknown")])
    assert "not stored" in found(check_published, answered)[0].sentence
    assert "2 times" in found(check_published, answered, [M0, Stored("t", 1, 9, M0.value)])[0].sentence
    assert "another place" in found(check_published, answered, [Stored("t", 0, 7, M0.value)])[0].sentence
    assert "refused" in found(check_published, [event("publish", 1, of=M0, outcome="refused")], [M0])[0].sentence


def test_delayed_is_stored_waiting_or_cancelled() -> None:
    delayed = event("publish", 1, of=Stored("t", 0, -1, M0.value), delay=5.0, delayed_id=3)
    cancel = event("cancel", 2, of=M0)
    assert not found(check_published, [delayed], [M0])
    assert not found(check_published, [delayed], waiting={("t", 0, 3)})
    assert not found(check_published, [delayed, cancel])
    assert "nobody cancelled" in found(check_published, [delayed])[0].sentence
    assert "was cancelled" in found(check_published, [delayed, cancel], [M0])[0].sentence


def test_delayed_is_not_early() -> None:
    delayed = event("publish", 1, of=M0, delay=5.0)
    assert not found(check_delays, [delayed, event("deliver", 6.1, of=M0, group=QUEUE)])
    assert "before its time" in found(check_delays, [delayed, event("deliver", 5.9, of=M0, group=QUEUE)])[0].sentence


@pytest.mark.parametrize(
    ("outcome", "stored", "is_fine"),
    [
        ("ok", [M0, M1], True),
        ("ok", [M0], False),
        ("refused", [], True),
        ("refused", [M0, M1], False),
        ("unknown", [], True),
        ("unknown", [M0, M1], True),
        ("unknown", [M1], False),
    ],
)
def test_a_transaction_is_all_or_nothing(outcome: Outcome, stored: list[Stored], is_fine: bool) -> None:
    transaction = event("transaction", 1, outcome=outcome, messages=[M0.value, M1.value])
    assert bool(found(check_transactions, [transaction], stored)) is not is_fine


def test_one_copy_of_each() -> None:
    copy = Stored("copies", 0, 0, f"copying:{M0.value}")
    again = Stored("copies", 0, 1, f"copying:{M0.value}")
    dead_letter = DeadLetter("t", "copying", M0.value, "rejected", 1)
    assert not found(check_copies, [], [M0, copy], COPYING)
    assert not found(check_copies, [], [M0], COPYING, dead_letters=[dead_letter])
    for stored, dead_letters in ([M0], []), ([M0, copy, again], []), ([M0, copy], [dead_letter]):
        assert found(check_copies, [], stored, COPYING, dead_letters=dead_letters)


def test_a_producer_is_in_order() -> None:
    events = [event("publish", 1, of=one, in_order=True) for one in (M0, M1)]
    turned = [Stored("t", 0, 1, M0.value), Stored("t", 0, 0, M1.value)]
    assert not found(check_producer_order, events, [M0, M1])
    assert found(check_producer_order, events, turned)[0].message == M0.value


def test_every_message_is_settled() -> None:
    given, acked = lease("deliver", 1, M0), lease("ack", 2, M0)
    dead_letter = DeadLetter("t", QUEUE.name, M0.value, "rejected", 1)
    rejected = lease("reject", 2, M0)
    assert not found(check_settled, [given, acked], [M0])
    assert not found(check_settled, [given, lease("ack", 2, M0, outcome="unknown")], [M0])
    assert not found(check_settled, [given, rejected], [M0], dead_letters=[dead_letter])
    assert "never delivered" in found(check_settled, [], [M0])[0].sentence
    assert "never settled" in found(check_settled, [given], [M0])[0].sentence
    assert "never settled" in found(check_settled, [given, lease("ack", 2, M0, outcome="refused")], [M0])[0].sentence
    assert "no dead letter" in found(check_settled, [given, rejected, acked], [M0])[0].sentence
    assert (
        "2 times"
        in found(check_settled, [given, rejected], [M0], dead_letters=[dead_letter, dead_letter])[0].sentence
    )
    assert "was acked" in found(check_settled, [given, rejected, acked], [M0], dead_letters=[dead_letter])[0].sentence


def test_a_settlement_that_finds_its_message_settled_by_another_consumer_decides_nothing() -> None:
    dead_letter = DeadLetter("t", QUEUE.name, M0.value, "rejected", 2)
    given = [lease("deliver", 1, M0), lease("deliver", 3, M0, attempt=2, nonce="b")]
    acked, rejected = lease("ack", 4, M0), lease("reject", 3.5, M0, attempt=2, nonce="b")
    assert not found(check_settled, [*given, rejected, acked], [M0], dead_letters=[dead_letter])
    early = lease("ack", 2, M0)
    assert (
        "was acked" in found(check_settled, [*given, early, rejected], [M0], dead_letters=[dead_letter])[0].sentence
    )
    first, second = lease("reject", 4, M0), lease("ack", 3.5, M0, attempt=2, nonce="b")
    assert not found(check_settled, [*given, second, first], [M0])
    late = lease("ack", 5, M0, attempt=2, nonce="b")
    assert "no dead letter" in found(check_settled, [*given, first, late], [M0])[0].sentence


def test_an_ack_that_is_repeated_after_a_kill_may_find_a_dead_letter() -> None:
    dead_letter = DeadLetter("t", QUEUE.name, M0.value, "max_attempts", 6)
    given, acked = lease("deliver", 1, M0, attempt=6), lease("ack", 2, M0, attempt=6, ended=9)
    assert not found(check_settled, [given, acked, event("kill", 3, ended=8)], [M0], dead_letters=[dead_letter])
    earlier = event("kill", 1, ended=1.5)
    assert "was acked" in found(check_settled, [given, acked, earlier], [M0], dead_letters=[dead_letter])[0].sentence


def test_a_dead_letter_has_a_reason() -> None:
    dead_letters = [
        DeadLetter("t", QUEUE.name, M0.value, reason, 2) for reason in ("rejected", "expired", "max_attempts")
    ]
    given = lease("deliver", 1, M0)
    for dead_letter in dead_letters:
        assert "without a reason" in found(check_settled, [given], [M0], dead_letters=[dead_letter])[0].sentence
    mortal = event("publish", 0, of=M0, ttl=1.0)
    assert not found(check_settled, [mortal], [M0], dead_letters=[dead_letters[1]])
    assert not found(check_settled, [], [M0], dead_letters=[DeadLetter("t", QUEUE.name, M0.value, "max_attempts", 6)])


def test_expired_messages_are_accounted_for() -> None:
    mortal = event("publish", 0, of=M0, ttl=1.0)
    dead_letter = DeadLetter("t", QUEUE.name, M0.value, "expired", 0)
    assert not found(check_published, [mortal])
    assert not found(check_settled, [mortal], dead_letters=[dead_letter])
    assert "is lost" in found(check_settled, [mortal])[0].sentence


def test_acked_stays_acked() -> None:
    acked = [lease("deliver", 1, M0), lease("ack", 2, M0)]
    again = lease("deliver", 3, M0, attempt=2, nonce="b")
    late = lease("deliver", 3, M0, attempt=1)
    assert not found(check_acked_stays_acked, [*acked, late])
    assert "got it" in found(check_acked_stays_acked, [*acked, again])[0].sentence
    assert not found(check_acked_stays_acked, [acked[0], lease("ack", 2, M0, outcome="refused"), again])
    assert not found(check_acked_stays_acked, [*acked, event("reset", 2.5, group=QUEUE), again])
    late = event("reset", 0.5, group=QUEUE, outcome="unknown", ended=0.9)  # by a worker that was paused
    assert not found(check_acked_stays_acked, [*acked, late, again])
    assert found(check_acked_stays_acked, [*acked, replace(late, outcome="ok"), again])


def test_a_lease_that_ended_before_the_acked_one_may_be_handed_out_late() -> None:
    """The attempts are equal where only the first message of a run of one key counted one."""
    acked = [lease("deliver", 1, M1, nonce="19-8030143"), lease("ack", 2, M1, nonce="19-8030143")]
    assert not found(check_acked_stays_acked, [*acked, lease("deliver", 3, M1, nonce="19-803013e")])
    assert found(check_acked_stays_acked, [*acked, lease("deliver", 3, M1, nonce="19-8030144")])
    assert found(check_acked_stays_acked, [*acked, lease("deliver", 3, M1, nonce="19-8130001")]), "of the next leader"
    assert found(check_acked_stays_acked, [*acked, lease("deliver", 3, M1, attempt=2, nonce="19-8030144")])


def test_one_holder_at_a_time() -> None:
    first, soon = lease("deliver", 1, M0, lease=True), lease("deliver", 2, M0, attempt=2, nonce="b", lease=True)
    later = lease("deliver", 9, M0, attempt=2, nonce="b", lease=True)
    assert not found(check_one_holder, [first, later])
    assert not found(check_one_holder, [first, lease("nack", 1.5, M0), soon])
    assert "while" in found(check_one_holder, [first, soon])[0].sentence


def test_keys_are_in_order() -> None:
    first = lease("deliver", 1, M0, group=LANES)
    together = lease("deliver", 1, M1, group=LANES)
    ahead = lease("deliver", 2, M1, nonce="b", group=LANES)
    acked = lease("ack", 1.5, M0, group=LANES)
    assert not found(check_key_order, [first, together], [M0, M1], LANES)
    assert not found(check_key_order, [first, acked, ahead], [M0, M1], LANES)
    assert "overtook" in found(check_key_order, [first, ahead], [M0, M1], LANES)[0].sentence
    assert "overtook" in found(check_key_order, [ahead], [M0, M1], LANES)[0].sentence


def test_everything_is_read() -> None:
    events = [event("deliver", number, of=one, group=STREAM) for number, one in enumerate((M0, M1), 1)]
    assert not found(check_all_read, events, [M0, M1], STREAM)
    assert found(check_all_read, events, [M0, M1, M2], STREAM)[0].message == M2.value
    reset = event("reset", 3, group=STREAM, moved={"0": {"old": 2, "new": 1}})
    assert found(check_all_read, [*events, reset], [M0, M1], STREAM)[0].message == M1.value
    again = event("deliver", 4, of=M1, group=STREAM)
    assert not found(check_all_read, [*events, reset, again], [M0, M1], STREAM)


def test_a_member_reads_in_order() -> None:
    def read(one: Stored, when: float, membership: str = "a") -> Event:
        return event("deliver", when, of=one, group=STREAM, membership=membership)

    assert not found(check_read_order, [read(M0, 1), read(M1, 2), read(M0, 3, "b")], group=STREAM)
    assert found(check_read_order, [read(M0, 1), read(M1, 2), read(M0, 3)], group=STREAM)
    revoke = event("revoke", 2.5, group=STREAM, membership="a")
    assert not found(check_read_order, [read(M0, 1), read(M1, 2), revoke, read(M0, 3)], group=STREAM)


def test_committed_never_goes_back() -> None:
    def shown(offset: int, began: float, ended: float | None = None) -> Event:
        return event("committed", began, ended, group=POLL, offset=offset)

    def falls(*events: Event) -> list[Violation]:
        return found(
            check_committed_never_goes_back, events, [Stored("t", 0, 4, "m.4"), Stored("t", 0, 5, "m.5")], POLL
        )

    commit = event("commit", 1, 2, group=POLL, offset=5)
    assert not falls(commit, shown(5, 3), shown(6, 4))
    assert not falls(commit, shown(4, 1.5)), "they overlap"
    assert falls(commit, shown(4, 3))
    assert falls(shown(5, 1), shown(6, 2), shown(5, 3))
    assert not falls(shown(8, 1), shown(6, 2)), "there is no message"
    reset = event("reset", 2.5, group=POLL, moved={})
    assert not falls(commit, reset, shown(0, 3))
    assert falls(commit, reset, shown(6, 3), shown(5, 4))


def test_what_is_committed_was_read() -> None:
    read = event("deliver", 1, of=M0, group=POLL)
    committed = event("committed", 2, group=POLL, offset=2)
    assert not found(check_committed_was_read, [read, event("committed", 2, group=POLL, offset=1)], [M0, M1], POLL)
    assert found(check_committed_was_read, [read, committed], [M0, M1], POLL)[0].message == M1.value
    later = event("deliver", 3, of=M1, group=POLL)
    assert found(check_committed_was_read, [read, committed, later], [M0, M1], POLL), "it was read too late"


def test_settings_hold() -> None:
    fine = event("shown", 1, setting="ttl", path="/topics/t", value=1, shown=1)
    lost = event("shown", 1, setting="ttl", path="/topics/t", value=1, shown=2)
    assert not found(check_settings_hold, [fine])
    assert found(check_settings_hold, [lost])
    earlier = event("alter", 0.5, outcome="unknown", setting="ttl", path="/topics/t", value=2)
    assert not found(check_settings_hold, [earlier, lost])
    assert found(check_settings_hold, [replace(earlier, details={**earlier.details, "value": 3}), lost])
    assert found(check_settings_hold, [replace(earlier, outcome="refused"), lost])


@pytest.mark.parametrize(("what", "check"), [("generation", check_generations_rise), ("epoch", check_epochs_rise)])
def test_numbers_rise(what: str, check: Check) -> None:
    first = event(what, 1, 2, whose="x", number=5)
    assert not found(check, [first, event(what, 3, whose="x", number=6), event(what, 3, whose="y", number=1)])
    assert not found(check, [first, event(what, 1.5, 3, whose="x", number=4)]), "they overlap"
    assert found(check, [first, event(what, 3, whose="x", number=4)])
    assert bool(found(check, [first, event(what, 3, whose="x", number=5)])) == (what == "epoch")


def test_one_value_at_each_offset() -> None:
    other = Stored("t", 0, M0.offset, "other")
    published, read = event("publish", 1, of=M0), event("deliver", 2, of=M0, group=STREAM)
    assert not found(check_one_value, [published, read], [M0])
    assert found(check_one_value, [published, read], [other])
    assert found(check_one_value, [published, event("deliver", 2, of=other, group=STREAM)])
    assert not found(check_one_value, [event("publish", 1, of=M0, outcome="unknown")], [other])


def test_errors_say_what_to_do() -> None:
    assert not found(check_errors, [event("publish", 1, outcome="unknown", code="not_enough_replicas")])
    assert not found(check_errors, [event("ack", 1, outcome="refused", code="lease_lost")])
    assert found(check_errors, [event("publish", 1, outcome="unknown", code="internal")])
    assert found(check_errors, [event("publish", 1, outcome="unknown", code="no_such_code")])


def test_a_refusal_during_a_kill_decides_nothing() -> None:
    refused = lease("ack", 2, M0, outcome="refused")
    given = lease("deliver", 1, M0)
    assert found(check_settled, [given, refused], [M0])
    assert not found(check_settled, [given, refused, event("kill", 1.5, 3)], [M0])


def test_the_report_tells_the_message_s_history() -> None:
    evidence = Evidence([event("publish", 1, of=M0), lease("deliver", 2, M0)], FinalState([M0]), [QUEUE])
    broken = violations(evidence)
    assert set(broken) == {"check_settled"}
    text = report(evidence, broken)
    assert "m.0 is lost in workers" in text
    assert text.index("publish ok") < text.index("deliver ok")


def test_every_check_is_run() -> None:
    assert {check.__name__ for check in CHECKS} == {name for name in globals() if name.startswith("check_")}


def test_events_of_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "one.events"
    recorder = Recorder(path)
    recorder.note("deliver", "one", message="m", attempt=1)
    recorder.begin("ack", "one", message="m")
    path.write_bytes(path.read_bytes() + b'[3, {"what": "cut o')
    delivered, acked = read_events([path])
    assert (delivered.what, delivered.outcome, delivered.details) == ("deliver", "ok", {"attempt": 1})
    assert (acked.what, acked.outcome) == ("ack", "unknown")
