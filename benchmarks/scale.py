"""How much is measured: a whole run, a quick one, one for turns, or just enough to see that everything works."""

from dataclasses import dataclass, replace

from benchmarks.payload import Payload

SMALL, LARGE = Payload(100), Payload(1024)
JSON, JSON_LZ4 = Payload(1024, "JSON"), Payload(1024, "JSON", "lz4")


@dataclass(frozen=True, slots=True)
class Scale:
    name: str
    share: float
    """Of the full number of messages."""
    repetitions: int
    payloads: tuple[Payload, ...]
    """Of the comparison; the first is that of latency, work queues and many partitions."""
    latency_messages: int
    gigabytes_through: float
    """For the memory and start-up figures."""
    index_gigabytes: tuple[int, ...]
    partition_counts: tuple[int, ...]
    many_partitions: int
    """For start-up and for the latency of partitions that are written at once."""
    wide_partitions: int
    """For publishing by key."""
    widest_partitions: int
    """The same, for Quiver alone."""
    batch_sizes: tuple[int, ...]
    budget_seconds: float
    """Work that has not begun by then is skipped, and the result says so."""
    workloads: tuple[str, ...] = ()
    """What is measured unless something else is asked for; empty: everything but the longest."""
    settle: bool = True
    """Write out the system's dirty pages before each measurement."""

    def count(self, full: int) -> int:
        return max(1_000, int(full * self.share))


FULL = Scale(
    name="full",
    share=1.0,
    repetitions=3,
    payloads=(SMALL, LARGE, JSON, JSON_LZ4),
    latency_messages=2_000,
    gigabytes_through=5.0,
    index_gigabytes=(1, 10, 100),
    partition_counts=(1, 100, 10_000),
    many_partitions=1_000,
    wide_partitions=1_000,
    widest_partitions=10_000,
    batch_sizes=(1, 10, 100, 1_000, 10_000),
    budget_seconds=27 * 60,
)
QUICK = Scale(
    name="quick",
    share=0.1,
    repetitions=1,
    payloads=(SMALL, JSON),
    latency_messages=500,
    gigabytes_through=0.2,
    index_gigabytes=(1, 10),
    partition_counts=(1, 100),
    many_partitions=100,
    wide_partitions=1_000,
    widest_partitions=2_000,
    batch_sizes=(1, 100, 10_000),
    budget_seconds=135,
    workloads=("publish", "consume", "latency", "keyed", "http"),
)
TURNS = replace(QUICK, name="turns", share=0.5, budget_seconds=300)
"""For `--against`: a figure takes about a second, so that it says more than how the first tenth of it went."""
TINY = Scale(
    name="tiny",
    share=0.002,
    repetitions=1,
    payloads=(SMALL, JSON_LZ4),
    latency_messages=50,
    gigabytes_through=0.02,
    index_gigabytes=(1,),
    partition_counts=(1, 10),
    many_partitions=10,
    wide_partitions=20,
    widest_partitions=40,
    batch_sizes=(1, 100),
    budget_seconds=160,
    settle=False,
)
SCALES = {scale.name: scale for scale in (FULL, QUICK, TURNS, TINY)}
