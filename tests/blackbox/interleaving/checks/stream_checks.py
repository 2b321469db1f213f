"""Groups with positions: everything is read, in order, and what is committed goes back only when asked to."""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator

from blackbox.interleaving.checks.evidence import Evidence, Violation
from blackbox.interleaving.final_state import Stored
from blackbox.interleaving.history import Event
from blackbox.interleaving.scenario import Group


def check_all_read(evidence: Evidence) -> Iterator[Violation]:
    """Every message came at least once, and once more after every reset to a place before it."""
    for group in evidence.groups:
        resets = [event for event in evidence.resets(group.name) if event.outcome == "ok"]
        if group.kind == "queue" and not resets:
            continue
        for one in evidence.stored_in(group.topic):
            deliveries = [event for event in evidence.by_group[group.name][one.value] if event.what == "deliver"]
            is_dead = group.kind != "stream" and evidence.dead_letters.get((group.name, one.value))
            if not deliveries and not is_dead:
                yield Violation(one.value, f"never came to {group.name}: {one.partition}@{one.offset}")
            if not deliveries or is_dead:
                continue
            last = max(event.ended for event in deliveries)
            missed = [event for event in resets if last < event.began and _goes_before(event, one)]
            if missed:
                yield Violation(one.value, f"did not come to {group.name} again after a reset to before it")


def _goes_before(reset: Event, one: Stored) -> bool:
    moved = reset.details["moved"].get(str(one.partition))
    return moved is not None and moved["new"] <= one.offset


def check_read_order(evidence: Evidence) -> Iterator[Violation]:
    """A member reads a partition in order, from when it is assigned until it loses it or goes back."""
    last: dict[tuple[str, int], int] = {}
    streams = {group.name for group in evidence.groups if group.kind == "stream"}
    for event in evidence.of("deliver", "assign", "revoke", "lost", "rewind"):
        if event.group not in streams:
            continue
        place = (event.details["membership"], event.partition)
        if event.what != "deliver":
            last.pop(place, None)
        elif event.offset <= last.get(place, -1):
            yield Violation(event.message, f"came to {event.actor} after offset {last[place]} of its partition")
        else:
            last[place] = event.offset


def check_committed_never_goes_back(evidence: Evidence) -> Iterator[Violation]:
    """What was shown or answered as committed is what everybody is shown from then on, or more."""
    for group in evidence.groups:
        resets = evidence.resets(group.name)
        shown: dict[int, list[Event]] = defaultdict(list)
        for event in evidence.of("committed", "commit"):
            if event.group == group.name and event.outcome == "ok":
                shown[event.partition].append(event)
        for partition, events in shown.items():
            offsets = sorted(one.offset for one in evidence.stored_in(group.topic) if one.partition == partition)
            for earlier, later in _falls(events, resets):
                if bisect_left(offsets, later.offset) == bisect_left(offsets, earlier.offset):
                    continue  # over a place without a message, such as the end of a transaction
                sentence = f"{group.name} went back in {group.topic}-{partition}: "
                yield Violation("", sentence + f"{earlier.line()} and then {later.line()}")


def _falls(events: list[Event], resets: list[Event]) -> Iterator[tuple[Event, Event]]:
    """Pairs that do not overlap, of which the later shows less, though nobody asked for that meanwhile."""
    highest: Event | None = None
    waiting = deque(sorted(events, key=lambda event: event.ended))
    for later in sorted((event for event in events if event.what == "committed"), key=lambda event: event.began):
        while waiting and waiting[0].ended < later.began:
            event = waiting.popleft()
            if highest is None or event.offset >= highest.offset or _reset_between(resets, highest, event):
                highest = event
        if highest is not None and later.offset < highest.offset and not _reset_between(resets, highest, later):
            yield highest, later


def _reset_between(resets: list[Event], first: Event, second: Event) -> bool:
    return any(reset.began <= second.ended and first.began <= reset.ended for reset in resets)


def check_committed_was_read(evidence: Evidence) -> Iterator[Violation]:
    """Nobody commits past a message that no member was given."""
    for group in _with_positions(evidence):
        given = _first_given(evidence, group)
        looks: dict[int, list[Event]] = defaultdict(list)
        for event in evidence.of("committed"):
            if event.group == group.name:
                looks[event.partition].append(event)
        places: dict[int, list[Stored]] = defaultdict(list)
        for one in evidence.stored_in(group.topic):
            places[one.partition].append(one)
        for partition, stored in places.items():
            for one, look in _first_passed(stored, looks[partition]):
                if look.ended < given.get(one.value, float("inf")):
                    yield Violation(one.value, f"was not read, and {group.name} had committed {look.offset}")


def _first_given(evidence: Evidence, group: Group) -> dict[str, float]:
    """When each message was given to a member first. What has died may have done so without that."""
    found = {one.value: 0.0 for one in evidence.final.dead_letters if one.group == group.name}
    for name, events in evidence.by_group[group.name].items():
        times = [event.began for event in events if event.what == "deliver"]
        if times:
            found.setdefault(name, min(times))
    return found


def _first_passed(stored: list[Stored], looks: list[Event]) -> Iterator[tuple[Stored, Event]]:
    """Each message with the first look that saw an offset behind it as committed."""
    by_offset = sorted(looks, key=lambda event: event.offset)
    first: Event | None = None
    for one in sorted(stored, key=lambda one: -one.offset):
        while by_offset and by_offset[-1].offset > one.offset:
            look = by_offset.pop()
            first = look if first is None or look.ended < first.ended else first
        if first is not None:
            yield one, first


def _with_positions(evidence: Evidence) -> Iterator[Group]:
    return (group for group in evidence.groups if group.kind != "queue")


STREAM_CHECKS = (check_all_read, check_read_order, check_committed_never_goes_back, check_committed_was_read)
