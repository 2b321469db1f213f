"""Receipts: what a consumer shows to settle a message it was given."""

import re
from typing import NamedTuple

from quiver.model.errors import InvalidReceipt

_RECEIPT = re.compile(
    r"([A-Za-z0-9._-]{1,240}):([0-9]{1,5}):([0-9]{1,19}):([0-9]{1,9}):([0-9a-f]{1,16})-([0-9a-f]{1,16})", re.ASCII
)
_SHOWN = 80
_END_OF_OFFSETS = 2**63


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
    """InvalidReceipt for anything that cannot be one. Whether its lease lives is for the broker to say."""
    found = _RECEIPT.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found[3]) >= _END_OF_OFFSETS:
        shown = text[:_SHOWN] if isinstance(text, str) else text
        raise InvalidReceipt(receipt=shown)
    topic, partition, offset, attempt, group_id, lease_id = found.groups()
    return Receipt(topic, int(partition), int(offset), int(attempt), int(group_id, 16), int(lease_id, 16))
