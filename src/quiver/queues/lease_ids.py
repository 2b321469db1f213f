"""Numbers of leases, none of them given twice by brokers on one data directory."""

from quiver.model.epochs import StartEpoch

_COUNTER_BITS = 40


class LeaseIds:
    """The epoch of the broker's start, and a counter that all partitions share: a topic that is deleted and created
    again under its name never sees an old number again, and receipts cannot tell the two topics apart."""

    __slots__ = ("_last",)

    def __init__(self, start_epoch: StartEpoch) -> None:
        self._last = start_epoch << _COUNTER_BITS

    def next(self) -> int:
        self._last += 1
        return self._last
