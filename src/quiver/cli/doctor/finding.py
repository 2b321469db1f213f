"""What a check found."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """From good to bad."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    check: str
    """What was looked at: disk, clock, groups, ..."""
    verdict: Verdict
    message: str
    advice: str = ""
    """What to do; empty where nothing is to be done."""


def ok(check: str, message: str) -> Finding:
    return Finding(check, Verdict.OK, message)


def warning(check: str, message: str, advice: str) -> Finding:
    return Finding(check, Verdict.WARNING, message, advice)


def problem(check: str, message: str, advice: str) -> Finding:
    return Finding(check, Verdict.PROBLEM, message, advice)


def worst(findings: Iterable[Finding]) -> Verdict:
    order = list(Verdict)
    return max((finding.verdict for finding in findings), key=order.index, default=Verdict.OK)


def shortened(findings: list[Finding], most: int) -> list[Finding]:
    """At most so many of one kind, with a line that says how many are left out."""
    if len(findings) <= most:
        return findings
    left = findings[most:]
    return [*findings[:most], msgspec.structs.replace(left[0], message=f"and {len(left)} more like the ones above")]
