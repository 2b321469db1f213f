"""How a consumer settles messages: ack, nack, reject, extend; and the receipts it names them by."""

import re
from typing import NamedTuple

import msgspec

from quiver.model.errors import InvalidReceipt, InvalidRequest
from quiver.model.limits import LONGEST_SETTLE_DELAY_MS

ACK, NACK, REJECT, EXTEND = 0, 1, 2, 3

_END_OF_OFFSETS = 2**63
_RECEIPT = re.compile(
    r"([A-Za-z0-9._-]{1,240}):([0-9]{1,5}):([0-9]{1,19}):([0-9]{1,9}):([0-9a-f]{1,16})-([0-9a-f]{1,16})", re.ASCII
)
_SHOWN_CHARACTERS = 80


class SettleRequest(msgspec.Struct, array_like=True, frozen=True):
    """What to do with some messages of one lease."""

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
    """The request was sent before and its outcome is unknown. Refusals then say whether the messages are settled."""

    def check(self) -> None:
        if not 0 <= self.action <= EXTEND:
            raise InvalidRequest(problem=f"{self.action} is not an action: 0 ack, 1 nack, 2 reject, 3 extend")
        for start, end in self.runs:
            if not 0 <= start < end <= _END_OF_OFFSETS:
                raise InvalidRequest(problem=f"{start} to {end} is not a run of offsets")
        if self.delay_ms is not None and not 0 <= self.delay_ms <= LONGEST_SETTLE_DELAY_MS:
            raise InvalidRequest(problem=f"a delay of {self.delay_ms} ms is not between 0 and ten years")


class Receipt(NamedTuple):
    """`topic:partition:offset:attempt:nonce`; the nonce names the group and the lease."""

    topic: str
    partition: int
    offset: int
    attempt: int
    group_id: int
    lease_id: int

    def __str__(self) -> str:
        place = f"{self.topic}:{self.partition}:{self.offset}:{self.attempt}"
        return f"{place}:{self.group_id:x}-{self.lease_id:x}"


def parse_receipt(text: object) -> Receipt:
    """Raises InvalidReceipt for anything that cannot be a receipt. Only the broker knows whether its lease still
    holds."""
    found = _RECEIPT.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found[3]) >= _END_OF_OFFSETS:
        shown = text[:_SHOWN_CHARACTERS] if isinstance(text, str) else text
        raise InvalidReceipt(receipt=shown)
    topic, partition, offset, attempt, group_id, lease_id = found.groups()
    return Receipt(topic, int(partition), int(offset), int(attempt), int(group_id, 16), int(lease_id, 16))
