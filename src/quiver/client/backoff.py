"""How long to wait before trying again."""

_FIRST_SECONDS = 0.02
_MOST_SECONDS = 1.0


def backoff_seconds(failures: int, jitter: float) -> float:
    """Doubles with every failure up to a second, spread by a jitter from 0 to 1."""
    longest = min(_MOST_SECONDS, _FIRST_SECONDS * 2 ** min(failures, 16))
    return float(longest * (0.5 + 0.5 * jitter))
