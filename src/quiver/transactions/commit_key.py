"""What a caller knows a commit by."""

from typing import NamedTuple


class CommitKey(NamedTuple):
    """The same key again is the same commit, and gets the same answer."""

    name: str
    description: str | None = None
    """What is committed, in words of the caller. The same key with another one is refused: it is not the same."""
