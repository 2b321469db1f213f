"""A measurement: one workload on one subject, with every repetition as it was."""

import statistics

import msgspec

Metrics = dict[str, float]


class Measurement(msgspec.Struct, kw_only=True):
    """`rate` (messages or operations a second) is better when higher; every other metric when lower."""

    subject: str
    workload: str
    message_bytes: int = 0
    durability: str = ""
    detail: str = ""
    repetitions: list[Metrics] = []

    def metrics(self) -> list[str]:
        return list(self.repetitions[0]) if self.repetitions else []

    def values(self, metric: str) -> list[float]:
        return [repetition[metric] for repetition in self.repetitions if metric in repetition]

    def median(self, metric: str) -> float:
        return statistics.median(self.values(metric))

    def best(self, metric: str) -> float:
        return max(self.values(metric)) if metric.startswith("rate") else min(self.values(metric))


class Results:
    """All measurements of a run, found again by what they measured."""

    def __init__(self, measurements: list[Measurement] | None = None) -> None:
        self.all: list[Measurement] = list(measurements or [])

    def add(
        self, subject: str, workload: str, metrics: Metrics, *, size: int = 0, durability: str = "", detail: str = ""
    ) -> None:
        """One more repetition."""
        found = self.find(subject, workload, size=size, durability=durability, detail=detail)
        if found is None:
            found = Measurement(
                subject=subject,
                workload=workload,
                message_bytes=size,
                durability=durability,
                detail=detail,
                repetitions=[],
            )
            self.all.append(found)
        found.repetitions.append({name: round(value, 6) for name, value in metrics.items()})

    def find(
        self, subject: str, workload: str, *, size: int = 0, durability: str = "", detail: str = ""
    ) -> Measurement | None:
        wanted = (subject, workload, size, durability, detail)
        for m in self.all:
            if (m.subject, m.workload, m.message_bytes, m.durability, m.detail) == wanted:
                return m
        return None

    def of(self, workload: str, size: int | None = None) -> list[Measurement]:
        return [m for m in self.all if m.workload == workload and (size is None or m.message_bytes == size)]
