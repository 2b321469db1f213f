"""How large a transaction may be."""

from collections.abc import Sequence

from quiver.model.errors import InvalidRequest
from quiver.model.limits import (
    COMMIT_DESCRIPTION_LENGTH,
    COMMIT_KEY_LENGTH,
    TRANSACTION_ACK_RUNS,
    TRANSACTION_OFFSETS,
    TRANSACTION_PRODUCERS,
)
from quiver.model.transaction import GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.transactions.producer import CommitKey


def check_producers(producers: Sequence[ProducerKey]) -> None:
    if not 1 <= len(producers) <= TRANSACTION_PRODUCERS:
        raise InvalidRequest(problem=f"a transaction has 1 to {TRANSACTION_PRODUCERS} producers")
    if len({each.producer_id for each in producers}) < len(producers):
        raise InvalidRequest(problem="a producer is listed twice; list each one once")


def commit_key(name: str | None, description: str | None) -> CommitKey | None:
    """Raises InvalidRequest if it cannot be a commit key."""
    if name is None:
        if description is not None:
            raise InvalidRequest(problem="a commit with a description needs a key")
        return None
    if not 1 <= len(name) <= COMMIT_KEY_LENGTH:
        raise InvalidRequest(problem=f"the key of a commit has 1 to {COMMIT_KEY_LENGTH} characters")
    if description is not None and len(description) > COMMIT_DESCRIPTION_LENGTH:
        raise InvalidRequest(
            problem=f"the description of a commit has at most {COMMIT_DESCRIPTION_LENGTH} characters"
        )
    return CommitKey(name, description)


def check_offset_count(groups: Sequence[GroupOffsetCommit]) -> None:
    if sum(len(group.offsets) for group in groups) > TRANSACTION_OFFSETS:
        raise InvalidRequest(problem=f"a transaction has at most {TRANSACTION_OFFSETS} offsets")


def check_runs(acks: Sequence[LeasedAcks]) -> None:
    if sum(len(part.runs) for part in acks) > TRANSACTION_ACK_RUNS:
        raise InvalidRequest(problem=f"a transaction acknowledges at most {TRANSACTION_ACK_RUNS} runs of messages")
