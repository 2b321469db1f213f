"""What clients were given and told: one message at each offset, and errors that say what to do."""

from collections.abc import Iterator

from blackbox.interleaving.checks.evidence import Evidence, Violation
from quiver.model.errors import CATALOGUE

NO_HELP = ("internal", "corrupt_data", "invalid_request", "protocol_error", "offset_out_of_range", "out_of_sequence")
"""Codes of errors that no fault of a machine may cause."""
OF_A_DATABASE = "storage_unavailable"
"""Which a broker on files does not have."""
OWN_CODES = ("aborted",)
"""Of events that the actors end themselves."""


def check_one_value(evidence: Evidence) -> Iterator[Violation]:
    """Whoever was told what is at an offset was told the same."""
    known: dict[tuple[str, int, int], str] = {
        (one.topic, one.partition, one.offset): one.value for one in evidence.final.stored
    }
    told = [event for event in evidence.of("publish", "deliver") if event.outcome == "ok" and event.offset >= 0]
    for event in told:
        value = known.setdefault((event.topic, event.partition, event.offset), event.message)
        if value != event.message:
            place = f"{event.topic}-{event.partition}@{event.offset}"
            yield Violation(event.message, f"is at {place} for {event.actor}, where others have {value}")


def check_errors(evidence: Evidence) -> Iterator[Violation]:
    """Every error is in the catalogue, and is one that a client can do something about."""
    for event in evidence.events:
        code = event.details.get("code")
        if (
            code is not None
            and code not in OWN_CODES
            and (code not in CATALOGUE or code in (*NO_HELP, OF_A_DATABASE))
        ):
            yield Violation(event.message, f"{event.actor} got the error {code}: {event.line()}")


VALUE_CHECKS = (check_one_value, check_errors)
