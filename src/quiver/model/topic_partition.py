"""A partition by the id of its topic and its number."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic_id: int
    partition: int
