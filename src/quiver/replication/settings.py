"""How a node replicates."""

from typing import NamedTuple

from quiver.model.limits import MIB


class ReplicationSettings(NamedTuple):
    call_seconds: float = 2.0
    idle_seconds: float = 0.5
    """A follower gets a call at least this often."""
    lag_seconds: float = 1.5
    """A member of the in-sync set that has not had everything for so long leaves it."""
    alone_seconds: float = 1.5
    """A leader to whom too few others have replied for `lag_seconds` asks for a successor after so long again: then
    the leases of dead nodes have ended."""
    call_bytes: int = MIB
    """Frames of one call to a follower. The next call has what was written meanwhile."""
    catch_up_bytes_per_second: int | None = None
    """From this node to all followers outside the in-sync sets together; None: as fast as it goes."""
    checks_epochs: bool = True
    """Frames must have the epoch of their unit. False for tests whose frames have others."""


class Member(NamedTuple):
    """This process."""

    node: int
    incarnation: int
    """Rises with every start of the node."""
    lost_at: int = 0
    """The last incarnation that began after a stop that was not clean (`clean_stop`)."""
