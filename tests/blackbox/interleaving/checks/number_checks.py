"""Numbers that are never given out twice: generations of groups, epochs of producers."""

from collections.abc import Iterator

from blackbox.interleaving.checks.evidence import Evidence, Violation


def check_generations_rise(evidence: Evidence) -> Iterator[Violation]:
    """Nobody is shown an earlier generation than somebody was before."""
    yield from _falls(evidence, "generation", least_step=0)


def check_epochs_rise(evidence: Evidence) -> Iterator[Violation]:
    """A producer that is opened again has a higher epoch."""
    yield from _falls(evidence, "epoch", least_step=1)


def _falls(evidence: Evidence, what: str, least_step: int) -> Iterator[Violation]:
    """Events whose number is below that of one that was over when they began."""
    events = [event for event in evidence.of(what) if event.outcome == "ok"]
    for name in sorted({event.details["whose"] for event in events}):
        own = [event for event in events if event.details["whose"] == name]
        ended = sorted(own, key=lambda event: event.ended)
        highest, place = -1, 0
        for event in own:
            while ended[place].ended < event.began:
                highest, place = max(highest, ended[place].details["number"]), place + 1
            if event.details["number"] < highest + least_step:
                yield Violation("", f"{what} of {name}: {highest} was known, and then {event.line()}")


NUMBER_CHECKS = (check_generations_rise, check_epochs_rise)
