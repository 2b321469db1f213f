"""The name that a caller gives a commit."""

from typing import NamedTuple


class CommitKey(NamedTuple):
    """The same key again is the same commit, and gets the same result."""

    name: str
    description: str | None = None
    """What is committed, in the caller's words. The same key with another description is refused."""
