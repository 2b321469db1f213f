"""What the whole broker does, from the samples of all workers."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from quiver.broker.broker import Broker
from quiver.metrics.backlog import Backlog
from quiver.metrics.sampler import TOP_TOPICS, BusyTopic, Rates, Sample, TopicRates
from quiver.routing.looks.requests import GetHistory, GetSample, GetTopicRates
from quiver.routing.scatter import Scatter

_Key = TypeVar("_Key", int, str)
_HIGHEST = {"publish_p99_ms"}
"""Columns of the history of which the highest value counts; the others are added up."""


class RoutedSampler:
    def __init__(self, local: Broker, scatter: Scatter) -> None:
        self._local, self._scatter = local.sampler, scatter

    async def latest(self) -> Sample:
        return await self._with_others(await self._local.latest())

    async def following(self, number: int) -> Sample | None:
        """As often as this worker takes one."""
        own = await self._local.following(number)
        return None if own is None else await self._with_others(own)

    async def history(self) -> dict[str, list[float]]:
        """The points of this worker, with what others had in the same second."""
        own = await self._local.history()
        look = await self._scatter.look(GetHistory(), self._local.history)
        others = [answer for worker, answer in look.answers.items() if worker != self._scatter.worker]
        return joined_history(own, others)

    async def topic_rates(self) -> Mapping[int, TopicRates]:
        async def own() -> dict[int, TopicRates]:
            return dict(await self._local.topic_rates())

        look = await self._scatter.look(GetTopicRates(), own)
        return _rates_by(item for answer in look.values() for item in answer.items())

    async def _with_others(self, own: Sample) -> Sample:
        async def ours() -> Sample:
            return own

        look = await self._scatter.look(GetSample(), ours)
        return joined(own, look.values())


def joined(own: Sample, samples: list[Sample]) -> Sample:
    """The samples of all workers as one, with the number and the time of this worker's."""
    sizes: dict[str, int] = {}
    for busy in (busy for sample in samples for busy in sample.top_topics):
        sizes[busy.topic] = sizes.get(busy.topic, 0) + busy.size_bytes
    rates = _rates_by((busy.topic, busy.rates) for sample in samples for busy in sample.top_topics)
    busiest = sorted(rates.items(), key=lambda item: sum(item[1]), reverse=True)[:TOP_TOPICS]
    backlog = Backlog(*(sum(column) for column in zip(*(sample.backlog for sample in samples), strict=True)))
    return own._replace(
        rates=Rates(*(round(sum(column), 3) for column in zip(*(sample.rates for sample in samples), strict=True))),
        publish_p99_ms=max(sample.publish_p99_ms for sample in samples),
        backlog=backlog._replace(groups=max(sample.backlog.groups for sample in samples)),
        topics=max(sample.topics for sample in samples),
        connections=sum(sample.connections for sample in samples),
        top_topics=[BusyTopic(topic, each, sizes[topic]) for topic, each in busiest],
    )


def _rates_by(items: "Iterable[tuple[_Key, TopicRates]]") -> "dict[_Key, TopicRates]":
    rates: dict[_Key, TopicRates] = {}
    for key, more in items:
        known = rates.get(key, TopicRates())
        rates[key] = TopicRates(*(round(a + b, 3) for a, b in zip(known, more, strict=True)))
    return rates


def joined_history(own: dict[str, list[float]], others: list[dict[str, list[float]]]) -> dict[str, list[float]]:
    columns = {name: list(values) for name, values in own.items()}
    for other in others:
        places = {int(second): place for place, second in enumerate(other.get("seconds", []))}
        for at, second in enumerate(columns["seconds"]):
            place = places.get(int(second))
            if place is None:
                continue
            for name, values in columns.items():
                if name in _HIGHEST:
                    values[at] = max(values[at], other[name][place])
                elif name != "seconds":
                    values[at] = round(values[at] + other[name][place], 3)
    return columns
