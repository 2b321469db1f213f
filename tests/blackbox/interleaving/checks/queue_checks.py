"""Groups that settle message by message: everything is settled or dead, once, and in order where it should be."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from blackbox.interleaving.checks.evidence import Evidence, Violation
from blackbox.interleaving.final_state import DeadLetter, Stored
from blackbox.interleaving.history import Event
from blackbox.interleaving.scenario import MAX_ATTEMPTS, VISIBILITY_SECONDS, Group


def check_settled(evidence: Evidence) -> Iterator[Violation]:
    """Every message of every queue group was delivered, and acked or made a dead letter."""
    for group in evidence.groups:
        if group.kind != "queue":
            continue
        for one in evidence.stored_in(group.topic):
            events = evidence.by_group[group.name][one.value]
            dead_letters = evidence.dead_letters.get((group.name, one.value), [])
            if not _is_settled(events) and not dead_letters:
                yield _lost(group, one, events)
            if not evidence.resets(group.name):  # after which a message may be settled once more, and otherwise
                yield from _account(evidence, group, one, events, dead_letters)


def _is_settled(events: list[Event]) -> bool:
    """Whether it was acked, or may have been."""
    return any(event.what == "ack" and event.may_count for event in events)


def _lost(group: Group, one: Stored, events: list[Event]) -> Violation:
    given = sum(event.what == "deliver" for event in events)
    how = f"delivered {given} times and never settled" if given else "never delivered"
    return Violation(one.value, f"is lost in {group.name}: stored at {one.partition}@{one.offset}, {how}")


def _account(
    evidence: Evidence, group: Group, one: Stored, events: list[Event], dead_letters: list[DeadLetter]
) -> Iterator[Violation]:
    if len(dead_letters) > 1:
        yield Violation(one.value, f"is a dead letter of {group.name} {len(dead_letters)} times")
    acks = _deciding(events, "ack", "reject")
    if dead_letters and dead_letters[0].reason != "rejected":  # the broker may have ended the lease before a repeat
        acks = [ack for ack in acks if not evidence.was_gone_during(ack)]
    if acks and dead_letters:
        yield Violation(one.value, f"was acked in {group.name} and is a dead letter: {dead_letters}")
    if not dead_letters and _deciding(events, "reject", "ack"):
        yield Violation(one.value, f"was rejected in {group.name} and is no dead letter")
    for dead_letter in dead_letters:
        yield from _cause(evidence, group, one, events, dead_letter)


def _deciding(events: list[Event], what: str, other: str) -> list[Event]:
    """The settlements of a kind that succeeded and cannot have found their message settled the other way.

    The lease of one that was sent again after a kill, or late, may have ended: if another consumer has settled the
    message by then, it succeeds without deciding anything (ADR 0017).
    """
    others = [event for event in events if event.what == other and event.may_count]

    def is_after_another(event: Event) -> bool:
        return any(
            each.details["receipt"] != event.details["receipt"] and each.began < event.ended for each in others
        )

    return [event for event in events if event.what == what and event.outcome == "ok" and not is_after_another(event)]


def _cause(
    evidence: Evidence, group: Group, one: Stored, events: list[Event], dead_letter: DeadLetter
) -> Iterator[Violation]:
    publish = evidence.publishes.get(one.value)
    if dead_letter.reason == "rejected":
        has_cause = any(event.what == "reject" and event.may_count for event in events)
    elif dead_letter.reason == "expired":
        has_cause = publish is not None and "ttl" in publish.details
    else:
        has_cause = dead_letter.attempts >= MAX_ATTEMPTS
    if not has_cause:
        yield Violation(one.value, f"is a dead letter of {group.name} without a reason: {dead_letter}")


def check_acked_stays_acked(evidence: Evidence) -> Iterator[Violation]:
    """Nothing is delivered again after an ack that was answered, unless a reset came between."""
    for group in evidence.groups:
        if group.kind == "stream":
            continue
        resets = evidence.resets(group.name)
        for name, events in evidence.by_group[group.name].items():
            acks = [event for event in events if event.what == "ack" and event.outcome == "ok"]
            for delivery in (event for event in events if event.what == "deliver"):
                for ack in acks:
                    if _comes_after(delivery, ack) and not _between(resets, ack, delivery):
                        yield Violation(
                            name, f"was acked in {group.name} by {ack.actor}, and {delivery.actor} got it"
                        )


def _comes_after(delivery: Event, ack: Event) -> bool:
    """Whether this is another lease than the acked one, given after it. What a client got ahead, and hands out after
    its lease has ended, is an earlier attempt, or an earlier lease: of a run of one key only the first message counts
    an attempt when the lease ends."""
    if delivery.details["receipt"] == ack.details["receipt"]:
        return False
    ahead = delivery.details["attempt"] - ack.details["attempt"]
    is_later = ahead > 0 or (ahead == 0 and _lease_number(delivery) >= _lease_number(ack))
    return is_later and delivery.began > ack.ended


def _lease_number(event: Event) -> int:
    """Leases of one partition are numbered in the order in which they are given, also by one leader after the other.
    The nonce of a receipt is `group-lease`, in hexadecimal digits."""
    return int(str(event.details["receipt"]).rpartition("-")[2], 16)


def _between(resets: list[Event], first: Event, second: Event) -> bool:
    return any(reset.began < second.ended and first.began < reset.ended for reset in resets)


def check_one_holder(evidence: Evidence) -> Iterator[Violation]:
    """While a lease lasts, nobody else is given its message. (Of leases over HTTP, whose length is known.)"""
    for group in evidence.groups:
        if group.kind != "queue" or evidence.resets(group.name):  # a reset ends all leases
            continue
        freed = _freed_leases(evidence, group)
        for name, events in evidence.by_group[group.name].items():
            leases = [event for event in events if event.what == "deliver" and event.details.get("lease")]
            leases.sort(key=lambda event: event.details["attempt"])
            for first, second in pairwise(leases):
                is_held = second.ended < first.began + VISIBILITY_SECONDS
                if is_held and freed.get(_lease_of(first), second.ended) >= second.ended:
                    yield Violation(name, f"was given to {second.actor} while {first.actor} had it in {group.name}")


def _freed_leases(evidence: Evidence, group: Group) -> dict[str, float]:
    """When each lease was first given back from, at the earliest: in an ordered group that ends all of it."""
    found: dict[str, float] = {}
    for event in evidence.of("nack", "extend", "ack", "reject"):
        if event.group == group.name:
            lease = _lease_of(event)
            found[lease] = min(found.get(lease, event.began), event.began)
    return found


def _lease_of(event: Event) -> str:
    """A receipt is `topic:partition:offset:attempt:nonce`; the nonce names the lease."""
    topic, partition, *_, nonce = str(event.details["receipt"]).split(":")
    return f"{topic}:{partition}:{nonce}"


def check_key_order(evidence: Evidence) -> Iterator[Violation]:
    """In ordered groups a message comes when all before it with its key are settled, or are in the same lease."""
    for group in evidence.groups:
        if not group.is_ordered:
            continue
        lanes: dict[tuple[int, str], list[Stored]] = defaultdict(list)
        for one in evidence.stored_in(group.topic):
            if one.key is not None:
                lanes[one.partition, one.key].append(one)
        for lane in lanes.values():
            lane.sort(key=lambda one: one.offset)
            yield from _check_lane(evidence, group, lane)


def _check_lane(evidence: Evidence, group: Group, lane: list[Stored]) -> Iterator[Violation]:
    of_group = evidence.by_group[group.name]
    for before, after in pairwise(lane):
        if evidence.dead_letters.get((group.name, before.value)):
            continue  # when it died is not known
        acks = [event for event in of_group[before.value] if event.what == "ack" and event.may_count]
        first_ack = min((event.began for event in acks), default=float("inf"))
        mates = {_lease_of(event) for event in of_group[before.value] if event.what == "deliver"}
        for event in of_group[after.value]:
            if event.what == "deliver" and event.ended < first_ack and _lease_of(event) not in mates:
                yield Violation(after.value, f"overtook {before.value} of key {after.key} in {group.name}")


QUEUE_CHECKS = (check_settled, check_acked_stays_acked, check_one_holder, check_key_order)
