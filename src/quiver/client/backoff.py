"""How long the client waits before it tries again."""

from quiver.system.backoff import Backoff
from quiver.system.randomness import Randomness

_FIRST_SECONDS = 0.02
_LONGEST_SECONDS = 1.0
_JITTER = 0.5


def retry_backoff(randomness: Randomness) -> Backoff:
    """Doubles with every failure up to a second; the second half of each pause is random."""
    return Backoff(_FIRST_SECONDS, _LONGEST_SECONDS, jitter=_JITTER, randomness=randomness)
