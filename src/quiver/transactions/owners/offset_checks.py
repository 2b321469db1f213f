"""Whether offsets may be committed with a transaction: asked where a group's members and offsets are."""

from collections.abc import Sequence

from quiver.model.names import TopicPartition
from quiver.model.transaction import GroupOffsetCommit
from quiver.streams.service import Streams
from quiver.transactions.limits import check_offset_count


async def check_offsets(streams: Streams, groups: Sequence[GroupOffsetCommit]) -> None:
    """Raises if there are too many, or if one is not in its log."""
    check_offset_count(groups)
    for group in groups:
        await streams.check_offsets(
            {TopicPartition(each.topic_id, each.partition): each.offset for each in group.offsets}
        )


async def check_held_offsets(streams: Streams, groups: Sequence[GroupOffsetCommit]) -> None:
    """Raises also if a member does not own its partitions. The caller holds the groups' locks."""
    await check_offsets(streams, groups)
    for group in groups:
        if group.member_id is None:
            await streams.groups.stream_group(group.group)
        streams.offsets.check_commit(
            group.group,
            [TopicPartition(each.topic_id, each.partition) for each in group.offsets],
            member_id=group.member_id,
            generation=group.generation,
        )
