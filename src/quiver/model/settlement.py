"""What is to become of messages that a consumer was given: acknowledged, given back, rejected, or held longer."""

import msgspec

from quiver.model.errors import InvalidRequest

ACK, NACK, REJECT, EXTEND = 0, 1, 2, 3

MAX_DELAY_MS = 3650 * 86_400_000
_LAST_OFFSET = 2**63


class SettleRequest(msgspec.Struct, array_like=True, frozen=True):
    """What is to happen with some messages of one lease."""

    topic_id: int
    partition: int
    group_id: int
    lease_id: int
    action: int
    runs: list[tuple[int, int]]
    """Offsets, as half-open ranges."""
    delay_ms: int | None = None
    """nack: until the next delivery (None: the group's backoff). extend: the lease ends that long from now (None: the
    group's visibility)."""
    is_counted: bool = True
    """nack: whether the delivery counts as an attempt."""
    reason: str = ""
    """nack: the last error; reject: the reason."""
    is_repeat: bool = False
    """It was sent before, and it is not known what became of it: refusals say whether the messages are settled."""

    def check(self) -> None:
        if not 0 <= self.action <= EXTEND:
            raise InvalidRequest(problem=f"{self.action} is not an action: 0 ack, 1 nack, 2 reject, 3 extend")
        for start, end in self.runs:
            if not 0 <= start < end <= _LAST_OFFSET:
                raise InvalidRequest(problem=f"{start} to {end} is not a run of offsets")
        if self.delay_ms is not None and not 0 <= self.delay_ms <= MAX_DELAY_MS:
            raise InvalidRequest(problem=f"a delay of {self.delay_ms} ms is not between 0 and ten years")
