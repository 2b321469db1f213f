"""The positions of a member as part of a transaction. Pure."""

from collections.abc import Sequence

from quiver.client.read.partition_source import PartitionSource
from quiver.model.errors import MemberFenced
from quiver.protocol.group_messages import CommitPart
from quiver.protocol.transaction_messages import GroupOffsetCommit


class StreamOffsets:
    """Positions of partitions at one moment."""

    __slots__ = ("_group", "_moved")

    def __init__(self, group: str, sources: Sequence[PartitionSource]) -> None:
        self._group = group
        self._moved = [(source, source.position) for source in sources if source.position > source.committed]

    def __bool__(self) -> bool:
        return bool(self._moved)

    def request(self, member_id: str, generation: int, held: Sequence[PartitionSource]) -> GroupOffsetCommit:
        """For a commit in this generation. Raises MemberFenced if a partition went to another member meanwhile."""
        for source, _ in self._moved:
            if source not in held:
                where = f"{source.topic}-{source.partition}"
                raise MemberFenced(f"{where} is no longer assigned to this member; what it read is read again")
        parts = [CommitPart(source.topic_id, source.partition, position) for source, position in self._moved]
        return GroupOffsetCommit(self._group, parts, member_id, generation)

    def committed(self) -> None:
        for source, position in self._moved:
            source.committed = source.settled_at = max(source.committed, position)
