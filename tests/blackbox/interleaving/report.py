"""All checks over a run, and the report of one that fails: the history of every message concerned."""

from collections import Counter
from collections.abc import Iterator

from blackbox.interleaving.checks.evidence import GAPS, Evidence, Violation
from blackbox.interleaving.checks.number_checks import NUMBER_CHECKS
from blackbox.interleaving.checks.queue_checks import QUEUE_CHECKS
from blackbox.interleaving.checks.setting_checks import SETTING_CHECKS
from blackbox.interleaving.checks.stored_checks import STORED_CHECKS
from blackbox.interleaving.checks.stream_checks import STREAM_CHECKS
from blackbox.interleaving.checks.value_checks import VALUE_CHECKS

CHECKS = (*STORED_CHECKS, *QUEUE_CHECKS, *STREAM_CHECKS, *SETTING_CHECKS, *NUMBER_CHECKS, *VALUE_CHECKS)
SHOWN = 3
"""How many violations of each check are shown with their history."""


def violations(evidence: Evidence) -> dict[str, list[Violation]]:
    """By the name of the check; checks that find nothing are left out."""
    found = {check.__name__: list(check(evidence)) for check in CHECKS}
    return {name: entries for name, entries in found.items() if entries}


def summary(evidence: Evidence) -> str:
    """How often each thing happened, and how it went."""
    counts = Counter((event.what, event.outcome) for event in evidence.events)
    return ", ".join(f"{what} {outcome} {count}" for (what, outcome), count in sorted(counts.items()))


def report(evidence: Evidence, found: dict[str, list[Violation]]) -> str:
    """What was done to the broker, and then what was found: the end of a long output is what people are shown."""
    return "\n".join(_lines(evidence, found))


def _lines(evidence: Evidence, found: dict[str, list[Violation]]) -> Iterator[str]:
    zero = evidence.events[0].began if evidence.events else 0.0
    yield "trouble:"
    troubles = [event for event in evidence.of(*GAPS, "slow", "worker", "reset") if event.may_count]
    yield from (f"    {event.line(zero)}" for event in troubles)
    for check, entries in found.items():
        yield f"{check}: {len(entries)} violations"
        for entry in entries[:SHOWN]:
            yield f"  {entry.message} {entry.sentence}"
            if entry.message:
                yield from (f"    {event.line(zero)}" for event in evidence.by_message[entry.message])
