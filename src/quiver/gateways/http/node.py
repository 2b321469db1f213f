"""What a node says about itself."""

from typing import Any

import msgspec


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    git_commit: str = "unknown"
    build_time: str = "unknown"
    started: int = 0
    """Epoch milliseconds."""
    settings: dict[str, Any] = {}
    """The configuration in force, by the names that users write; secrets are masked."""
