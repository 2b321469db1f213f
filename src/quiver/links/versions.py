"""Which versions of the protocol between nodes a node speaks, and which one two of them use."""

import re
from typing import NamedTuple


class LinkVersions(NamedTuple):
    """A range, both ends included."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest} to {self.newest}" if self.oldest < self.newest else str(self.newest)


FIRST = LinkVersions(1, 1)
"""Of nodes that do not say which versions they speak."""
SPOKEN = LinkVersions(1, 2)
"""1: the calls of ADR 0030 and 0036. 2: the handshake names versions; `ReplicateIdle`."""


def common_version(ours: LinkVersions, theirs: LinkVersions) -> int | None:
    """The highest that both speak."""
    newest = min(ours.newest, theirs.newest)
    return newest if newest >= max(ours.oldest, theirs.oldest) else None


def parse_versions(text: str) -> LinkVersions:
    """`2`, or a range such as `1-2`. ValueError for what this program does not speak."""
    found = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", text.strip(), re.ASCII)
    if found is None:
        raise ValueError(f"{text!r} is neither a version nor a range such as 1-2")
    oldest, newest = int(found[1]), int(found[2] or found[1])
    if not SPOKEN.oldest <= oldest <= newest <= SPOKEN.newest:
        raise ValueError(f"{text!r} is not within the versions {SPOKEN}")
    return LinkVersions(oldest, newest)
