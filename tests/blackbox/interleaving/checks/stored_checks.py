"""What was published is stored, once, where it was said to be; transactions are all or nothing; delays are kept."""

from collections import defaultdict
from collections.abc import Iterator

from blackbox.interleaving.checks.evidence import Evidence, Violation
from blackbox.interleaving.final_state import Stored
from blackbox.interleaving.history import Event

CLOCK_SECONDS = 0.005
"""How far the monotonic clock of an event and the broker's own may be apart over a short delay."""


def check_published(evidence: Evidence) -> Iterator[Violation]:
    """What was answered is there; what was refused or cancelled is not; nothing is there twice."""
    cancelled = {event.message for event in evidence.of("cancel") if event.outcome == "ok"}
    maybe_cancelled = {event.message for event in evidence.of("cancel") if event.may_count}
    for name, publish in evidence.publishes.items():
        found = evidence.stored.get(name, [])
        if len(found) > 1:
            yield Violation(name, f"is stored {len(found)} times: {found}")
        if publish.outcome == "refused" and found:
            yield Violation(name, f"was refused or aborted and is stored: {found}")
        elif name in cancelled and found:
            yield Violation(name, f"was cancelled and is in the topic: {found}")
        elif publish.outcome == "ok" and not found and name not in maybe_cancelled:
            yield from _missing(evidence, name, publish)
        elif publish.outcome == "ok" and publish.offset >= 0 and not _is_at(publish, found):
            yield Violation(name, f"was answered for another place than {found}")


def _is_at(publish: Event, found: list[Stored]) -> bool:
    return any((one.partition, one.offset) == (publish.partition, publish.offset) for one in found)


def _missing(evidence: Evidence, name: str, publish: Event) -> Iterator[Violation]:
    number = publish.details.get("delayed_id")
    if number is None:
        yield Violation(name, "was answered and is not stored")
    elif "ttl" in publish.details:
        pass  # its time to live was over before it was due
    elif (publish.topic, publish.partition, number) not in evidence.final.waiting:
        yield Violation(name, "was delayed, is neither in the topic nor waiting, and nobody cancelled it")


def check_delays(evidence: Evidence) -> Iterator[Violation]:
    """Nobody gets a message before its time."""
    for event in evidence.of("deliver"):
        publish = evidence.publishes.get(event.message)
        delay = publish and publish.details.get("delay")
        if publish and delay and event.ended < publish.began + delay - CLOCK_SECONDS:
            early = publish.began + delay - event.ended
            yield Violation(event.message, f"was delivered to {event.group} {early:.3f} s before its time")


def check_transactions(evidence: Evidence) -> Iterator[Violation]:
    """All messages of a transaction are there, or none."""
    for event in evidence.of("transaction"):
        if event.group:  # copies, which a later transaction may make when one was aborted: see check_copies
            continue
        names = event.details["messages"]
        there = [name for name in names if evidence.stored.get(name)]
        wanted = {"ok": (len(names),), "refused": (0,), "unknown": (0, len(names))}[event.outcome]
        if len(there) not in wanted:
            missing = (set(names) - set(there) or set(names)).pop()
            yield Violation(
                missing, f"{len(there)} of {len(names)} messages of a transaction are there ({event.outcome})"
            )


def check_copies(evidence: Evidence) -> Iterator[Violation]:
    """Groups that settle in transactions made one copy of every message, unless it is dead."""
    for group in evidence.groups:
        if not group.copies_to:
            continue
        for one in evidence.stored_in(group.topic):
            copies = evidence.stored.get(f"{group.name}:{one.value}", [])
            dead_letters = evidence.dead_letters.get((group.name, one.value), [])
            if len(copies) + len(dead_letters) != 1:
                yield Violation(
                    one.value, f"{group.name} made {len(copies)} copies, {len(dead_letters)} dead letters"
                )


def check_producer_order(evidence: Evidence) -> Iterator[Violation]:
    """Messages of one producer are in order within a partition."""
    places: dict[tuple[str, int], list[tuple[int, int, str]]] = defaultdict(list)
    for name, publish in evidence.publishes.items():
        if publish.details.get("in_order"):
            for one in evidence.stored.get(name, []):
                number = int(name.rpartition(".")[2])
                places[publish.actor, one.partition].append((one.offset, number, name))
    for (actor, partition), entries in places.items():
        last = -1
        for offset, number, name in sorted(entries):
            if number < last:
                yield Violation(name, f"of {actor} is behind number {last} in partition {partition}, at {offset}")
            last = max(last, number)


STORED_CHECKS = (check_published, check_delays, check_transactions, check_copies, check_producer_order)
