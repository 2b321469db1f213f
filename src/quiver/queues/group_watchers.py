"""Who wants to know when messages of a group become available again."""

from collections.abc import Callable


class GroupWatchers:
    def __init__(self) -> None:
        self._watchers: dict[int, list[Callable[[], None]]] = {}

    def watch(self, group_id: int, on_news: Callable[[], None]) -> None:
        self._watchers.setdefault(group_id, []).append(on_news)

    def unwatch(self, group_id: int, on_news: Callable[[], None]) -> None:
        watchers = self._watchers[group_id]
        watchers.remove(on_news)
        if not watchers:
            del self._watchers[group_id]

    def wake(self, group_id: int) -> None:
        for on_news in self._watchers.get(group_id, ()):
            on_news()

    def __len__(self) -> int:
        """How many groups are watched."""
        return len(self._watchers)
