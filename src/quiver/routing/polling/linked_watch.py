"""Waits for news in partitions of several workers."""

import asyncio
from collections.abc import Mapping

from quiver.links.peers import Peers
from quiver.links.request import Reply
from quiver.model.names import TopicPartition
from quiver.routing.polling.requests import AwaitNews
from quiver.streams.owners.port import NewsWatch


class LinkedWatch:
    def __init__(
        self, own: NewsWatch, peers: Peers, group_id: int, others: Mapping[int, list[TopicPartition]]
    ) -> None:
        self.news = own.news
        self._own, self._peers, self._group_id, self._others = own, peers, group_id, others
        self._calls: list[asyncio.Future[Reply[None]]] = []

    def extend(self) -> bool:
        for worker, partitions in self._others.items():
            call = self._peers.begin(worker, AwaitNews(self._group_id, partitions))
            call.add_done_callback(self._on_news)
            self._calls.append(call)
        return True

    def seconds_to_retry(self) -> float:
        return self._own.seconds_to_retry()

    def close(self) -> None:
        self._own.close()
        for call in self._calls:
            call.cancel()

    def _on_news(self, call: "asyncio.Future[Reply[None]]") -> None:
        """Also when the other worker is gone: then the next take says so."""
        if not call.cancelled():
            call.exception()
            self.news.set()
