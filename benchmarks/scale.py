"""How much is measured: a whole run, a quick one, or just enough to see that everything works."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    name: str
    share: float
    """Of the full number of messages."""
    repetitions: int
    sizes: tuple[int, ...]
    latency_messages: int
    gigabytes_through: float
    """For the memory and start-up figures."""
    index_gigabytes: tuple[int, ...]
    partition_counts: tuple[int, ...]
    many_partitions: int
    """For start-up and for the latency of partitions that are written at once."""
    batch_sizes: tuple[int, ...]
    budget_seconds: float
    """Work that has not begun by then is skipped, and the result says so."""
    settle: bool = True
    """Write out the system's dirty pages before each measurement."""

    def count(self, full: int) -> int:
        return max(1_000, int(full * self.share))


FULL = Scale(
    name="full",
    share=1.0,
    repetitions=3,
    sizes=(100, 1024),
    latency_messages=2_000,
    gigabytes_through=5.0,
    index_gigabytes=(1, 10, 100),
    partition_counts=(1, 100, 10_000),
    many_partitions=1_000,
    batch_sizes=(1, 10, 100, 1_000, 10_000),
    budget_seconds=45 * 60,
)
QUICK = Scale(
    name="quick",
    share=0.1,
    repetitions=1,
    sizes=(100,),
    latency_messages=500,
    gigabytes_through=0.2,
    index_gigabytes=(1, 10),
    partition_counts=(1, 100),
    many_partitions=100,
    batch_sizes=(1, 100, 10_000),
    budget_seconds=150,
)
TINY = Scale(
    name="tiny",
    share=0.002,
    repetitions=1,
    sizes=(100,),
    latency_messages=50,
    gigabytes_through=0.02,
    index_gigabytes=(1,),
    partition_counts=(1, 10),
    many_partitions=10,
    batch_sizes=(1, 100),
    budget_seconds=160,
    settle=False,
)
SCALES = {scale.name: scale for scale in (FULL, QUICK, TINY)}
