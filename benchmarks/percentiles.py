"""Percentiles of a list of seconds, as the milliseconds that results carry."""

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def latency_metrics(prefix: str, seconds: Sequence[float]) -> dict[str, float]:
    """`<prefix>_p50_ms` and so on; lower is better for all of them."""
    return {
        f"{prefix}_p50_ms": percentile(seconds, 0.50) * 1e3,
        f"{prefix}_p99_ms": percentile(seconds, 0.99) * 1e3,
        f"{prefix}_max_ms": max(seconds) * 1e3,
    }
