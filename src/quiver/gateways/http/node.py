"""What a node says about itself."""

import msgspec


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    git_commit: str = "unknown"
    build_time: str = "unknown"
    started: int = 0
    """Epoch milliseconds."""
