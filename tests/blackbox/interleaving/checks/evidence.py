"""The history of a run, arranged for the checks, and what they find."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from blackbox.interleaving.final_state import DeadLetter, FinalState, Stored
from blackbox.interleaving.history import Event
from blackbox.interleaving.scenario import GROUPS, Group

GAPS = ("kill", "stop", "supervisor", "one", "pause", "fault")
"""Troubles during which the broker, one of its workers or a node of a cluster does not answer."""
LATE_SECONDS = 30.0
"""A worker that was paused may still do what it was asked for before, when the caller no longer waits for it."""


class Violation(NamedTuple):
    message: str
    """The message that it is about, if it is about one."""
    sentence: str


class Evidence:
    def __init__(self, events: Iterable[Event], final: FinalState, groups: Iterable[Group] = GROUPS) -> None:
        self.events = sorted(_with_doubt(list(events)), key=lambda event: event.began)
        self.final = replace(final, stored=[*final.stored, *self._expired(final)])
        self.groups = tuple(groups)

    def _expired(self, final: FinalState) -> list[Stored]:
        """Messages that were stored and are shown no more, as their time to live is over."""
        shown = {one.value for one in final.stored}
        return [
            Stored(event.topic, event.partition, event.offset, event.message, event.details.get("key"))
            for event in self.of("publish")
            if "ttl" in event.details and event.outcome == "ok" and event.offset >= 0 and event.message not in shown
        ]

    @cached_property
    def by_message(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            for name in {event.message, *event.details.get("messages", ())} - {""}:
                found[name].append(event)
        return found

    @cached_property
    def by_group(self) -> dict[str, dict[str, list[Event]]]:
        """Per group and message what the group's consumers have seen and done."""
        found: dict[str, dict[str, list[Event]]] = defaultdict(lambda: defaultdict(list))
        for event in self.events:
            if event.group and event.message:
                found[event.group][event.message].append(event)
        return found

    @cached_property
    def stored(self) -> dict[str, list[Stored]]:
        found: dict[str, list[Stored]] = defaultdict(list)
        for one in self.final.stored:
            found[one.value].append(one)
        return found

    @cached_property
    def dead_letters(self) -> dict[tuple[str, str], list[DeadLetter]]:
        """By group and message."""
        found: dict[tuple[str, str], list[DeadLetter]] = defaultdict(list)
        for one in self.final.dead_letters:
            found[one.group, one.value].append(one)
        return found

    @cached_property
    def publishes(self) -> dict[str, Event]:
        return {event.message: event for event in self.of("publish")}

    @cached_property
    def _by_kind(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            found[event.what].append(event)
        return found

    def of(self, *what: str) -> list[Event]:
        """The events of these kinds, in the order in which they began."""
        found = [event for kind in what for event in self._by_kind[kind]]
        return found if len(what) == 1 else sorted(found, key=lambda event: event.began)

    def resets(self, group: str) -> list[Event]:
        """Those that may have been carried out, each as long as it may have taken."""
        return [
            event if event.outcome == "ok" else replace(event, ended=max(event.ended, event.began + LATE_SECONDS))
            for event in self._by_kind["reset"]
            if event.group == group and event.may_count
        ]

    def was_gone_during(self, event: Event) -> bool:
        """Whether the broker, or one of its workers, was away meanwhile, so that a request was sent again."""
        return any(event.overlaps(gap) for gap in self.of(*GAPS))

    def stored_in(self, topic: str) -> Iterator[Stored]:
        return (one for one in self.final.stored if one.topic == topic)


def _with_doubt(events: list[Event]) -> list[Event]:
    """A refusal during which the broker was gone may be that of a repeat: the first request may have counted."""
    gaps = [event for event in events if event.what in GAPS]

    def is_doubtful(event: Event) -> bool:
        return event.what in ("ack", "reject", "nack") and any(event.overlaps(gap) for gap in gaps)

    return [
        replace(event, outcome="unknown") if event.outcome == "refused" and is_doubtful(event) else event
        for event in events
    ]
