"""Topics: all of them by name, or page by page with what they hold and how busy they are."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.metrics.sampler import TopicRates
from quiver.model.errors import TopicNotFound
from quiver.model.names import is_internal
from quiver.model.times import format_duration
from quiver.model.topic import Topic
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class TopicListQuery(msgspec.Struct, kw_only=True):
    limit: Annotated[int, Meta(ge=1)] | None = None
    skip: Annotated[int, Meta(ge=0)] = 0
    cursor: Annotated[str | None, Meta(description="The next_cursor of the page before.")] = None
    search: Annotated[str | None, Meta(description="A part of the name, in upper or lower case.")] = None
    details: Annotated[bool, Meta(description="Objects instead of names.")] = False


class TopicSummary(msgspec.Struct, kw_only=True):
    name: str
    partitions: int
    messages: Annotated[int, Meta(description="Stored messages.")]
    size_bytes: int
    published_per_second: Annotated[float, Meta(description="In about the last second.")]
    read_per_second: float
    groups: Annotated[int, Meta(description="How many groups read it, or have read it.")]
    retention: Annotated[str | None, Meta(description="Such as 7d; null: no limit.")]
    is_internal: Annotated[bool, Meta(description="The broker's own, such as __traces.")]


class TopicListResponse(msgspec.Struct, kw_only=True):
    """All names, sorted; with `limit` a page of them, and next_skip and next_cursor while there are more."""

    topics: list[str | TopicSummary]
    count: Annotated[int, Meta(description="How many there are on all pages.")]
    next_skip: int | UnsetType = UNSET
    next_cursor: str | UnsetType = UNSET


class TopicListRoute:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def all(self, request: Request) -> Response:
        query = request.query(TopicListQuery)
        topics = self._broker.topics()
        if query.search is not None:
            part = query.search.lower()
            topics = [topic for topic in topics if part in topic.name.lower()]
        count, start = len(topics), query.skip
        if query.cursor is not None:
            start += sum(topic.name <= query.cursor for topic in topics)
        end = count if query.limit is None else start + query.limit
        page = topics[start:end]
        response = TopicListResponse(topics=[topic.name for topic in page], count=count)
        if end < count:
            response.next_cursor = page[-1].name
            response.next_skip = end if query.cursor is None else UNSET
        if query.details:
            response.topics = await self._summaries(page)
        return Response(response)

    async def _summaries(self, topics: list[Topic]) -> list[str | TopicSummary]:
        rates = await self._broker.sampler.topic_rates()
        groups = await self._broker.group_admin.counts({topic.id for topic in topics})
        found: list[str | TopicSummary] = []
        async for topic in paced(topics):
            try:
                details = await self._broker.describe(topic.name)
            except TopicNotFound:  # deleted meanwhile
                continue
            config, of_topic = topic.config, rates.get(topic.id, TopicRates())
            found.append(
                TopicSummary(
                    name=topic.name,
                    partitions=config.partitions,
                    messages=details.message_count,
                    size_bytes=details.size_bytes,
                    published_per_second=of_topic.published_per_second,
                    read_per_second=of_topic.read_per_second,
                    groups=groups[topic.id],
                    retention=None if config.retention_ms is None else format_duration(config.retention_ms),
                    is_internal=is_internal(topic.name),
                )
            )
        return found
