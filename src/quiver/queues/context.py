"""What all queues of a broker share."""

from dataclasses import dataclass, field

from quiver.model.limits import Limits
from quiver.queues.partition.frame_cache import FrameCache
from quiver.storage.history import NO_HISTORY, History
from quiver.system.clock import Clock
from quiver.system.pace import Turnstile
from quiver.system.randomness import Randomness

RECENT_LEASES = 1 << 14


@dataclass(frozen=True, slots=True)
class QueueContext:
    clock: Clock
    lease_clock: Clock
    """What leases and retries go by: steps of the wall clock do not touch them."""
    randomness: Randomness
    limits: Limits = field(default_factory=Limits)
    history: History = NO_HISTORY
    """What journals keep beyond what they need."""
    frames: FrameCache = field(default_factory=FrameCache)
    delivery_times: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)] * RECENT_LEASES)
    """Id and time of the last leases that were delivered, at the place that the lower bits of the id name."""
    turnstile: Turnstile = field(default_factory=Turnstile)
