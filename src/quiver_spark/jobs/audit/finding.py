"""The findings of an audit."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

Kind = Literal[
    "crc",
    "gap",
    "order",
    "duplicate",
    "sequence",
    "lost",
    "lake-file",
    "lake-range",
    "lake-position",
    "lake-count",
    "lake-missing",
    "lake-extra",
    "lake-content",
]
KEPT = 1000
"""Findings of one kind that a task returns; the others are counted."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One problem and its offsets, from the first to the last."""

    topic: str
    partition: int
    kind: Kind
    first_offset: int
    last_offset: int
    sentence: str
    file: str | None = None
    position: int | None = None
    """The byte of the file."""

    @property
    def offsets(self) -> str:
        first, last = self.first_offset, self.last_offset
        return str(first) if last <= first else f"{first} to {last}"


class Findings(msgspec.Struct):
    """Findings of a task or of a whole audit: some of each kind, and how many there were of it."""

    kept: list[Finding] = []
    counts: dict[str, int] = {}
    limit: int = KEPT

    def add(self, finding: Finding) -> None:
        count = self.counts[finding.kind] = self.counts.get(finding.kind, 0) + 1
        if count <= self.limit:
            self.kept.append(finding)

    def add_all(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.add(finding)

    def take(self, other: "Findings") -> None:
        """Adds the findings of another task."""
        kept = Counter(finding.kind for finding in self.kept) if other.kept else Counter[str]()
        for finding in other.kept:
            kept[finding.kind] += 1
            if kept[finding.kind] <= self.limit:
                self.kept.append(finding)
        for kind, count in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())
