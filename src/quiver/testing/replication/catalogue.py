"""What the brokers of a simulated cluster know of their logs, whoever is killed: as coordination would tell it."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from quiver.storage.port import LogOptions

Kind = Literal["data", "volatile", "journal"]

OPTIONS = {
    "data": LogOptions(segment_bytes=4 * 1024),
    "volatile": LogOptions(segment_bytes=4 * 1024, durability="interval"),
    "journal": LogOptions(segment_bytes=4 * 1024, durability="interval", syncs_what_counts=True),
}
WORKERS = (0, 1)
STAYING: tuple[tuple[str, Kind], ...] = (
    ("topics/1/0", "data"),
    ("topics/1/0-delivery", "journal"),
)
VOLATILE_WORKER = 1
"""The other one has no log whose members may lose something: there, whoever is back first may lead."""


class Place(NamedTuple):
    worker: int
    log_id: str


@dataclass(slots=True)
class Catalogue:
    logs: dict[Place, Kind] = field(default_factory=dict)
    """Those that are there."""
    deleted: set[Place] = field(default_factory=set)
    dropped: dict[Place, int] = field(default_factory=dict)
    """Retention may have removed what is below."""
    last_topic: int = 1

    def __post_init__(self) -> None:
        for worker in WORKERS:
            for log_id, kind in STAYING:
                self.logs[Place(worker, log_id)] = kind
        self.logs[Place(VOLATILE_WORKER, "topics/2/0")] = "volatile"
        self.last_topic = 2

    def create(self, worker: int) -> Place:
        self.last_topic += 1
        place = Place(worker, f"topics/{self.last_topic}/0")
        self.logs[place] = "data"
        return place

    def delete(self, place: Place) -> None:
        del self.logs[place]
        self.deleted.add(place)

    def of(self, worker: int) -> list[Place]:
        return [place for place in self.logs if place.worker == worker]
