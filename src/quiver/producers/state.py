"""The epochs of producers without transactions. Pure: events in, state out."""

from collections.abc import Iterator

import msgspec

from quiver.model.limits import PRODUCER_EPOCHS_REMEMBERED
from quiver.producers.events import EpochGiven


class EpochTable:
    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        """The last epoch given to each producer, if it is not 0; the most recent is last."""

    def apply(self, event: EpochGiven) -> None:
        self.epochs.pop(event.producer_id, None)
        self.epochs[event.producer_id] = event.epoch
        while len(self.epochs) > PRODUCER_EPOCHS_REMEMBERED:
            del self.epochs[next(iter(self.epochs))]

    def snapshot(self) -> Iterator[bytes]:
        yield msgspec.json.encode(list(self.epochs.items()))

    def restore(self, data: bytes) -> None:
        self.epochs = dict(msgspec.json.decode(data, type=list[tuple[int, int]]))
