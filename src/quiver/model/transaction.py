"""What takes part in a transaction."""

import msgspec


class LeasedAcks(msgspec.Struct, array_like=True, frozen=True):
    """Messages of one lease that are to be acknowledged when the transaction is committed."""

    topic_id: int
    partition: int
    group_id: int
    lease_id: int
    runs: list[tuple[int, int]]
    """Offsets, as half-open ranges."""
