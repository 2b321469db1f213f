"""Recurring schedules: `q.schedules`."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.client.produce.payload import header_bytes, key_bytes, value_bytes
from quiver.model.names import check_name
from quiver.model.priority import PriorityLevel, parse_priority
from quiver.model.schedule import ScheduleChanges
from quiver.protocol.message import Message
from quiver.protocol.schedule_messages import (
    AddSchedule,
    AlterSchedule,
    ListSchedules,
    RemoveSchedule,
    RunSchedule,
    ScheduleInfo,
    ScheduleList,
)


class AsyncSchedules:
    def __init__(self, broker: AsyncReconnectingConnection) -> None:
        self._broker = broker

    async def add(
        self,
        cron: str,
        topic: str,
        value: Any,
        *,
        name: str | None = None,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str] | None = None,
        priority: PriorityLevel | None = None,
        timezone: str = "UTC",
        paused: bool = False,
    ) -> ScheduleInfo:
        """Sends a message at the times of a cron expression (`*/5 * * * *`, `@daily`) or `@every 30s`.

        Values, keys and headers are those of `publish`. Without a name the broker generates one. Raises
        ScheduleExists, TopicNotFound, or InvalidRequest for a bad expression or time zone.
        """
        request = AddSchedule(
            cron,
            check_name(topic),
            value_bytes(value),
            "" if name is None else check_name(name, "schedule"),
            key_bytes(key),
            header_bytes(headers) or {},
            parse_priority(priority),
            timezone,
            paused,
        )
        return await self._one(request, repeatable=False)

    async def list(self) -> Sequence[ScheduleInfo]:
        """Every schedule with its next and its last time, by name."""
        return await self._answer(ListSchedules())

    async def get(self, name: str) -> ScheduleInfo:
        """Raises ScheduleNotFound."""
        return await self._one(ListSchedules(name))

    async def alter(self, name: str, **changes: Any) -> ScheduleInfo:
        """Changes cron, timezone, topic, value, key, headers, priority or paused; the others stay as they are."""
        return await self._one(AlterSchedule(name, _changes(changes)))

    async def pause(self, name: str) -> ScheduleInfo:
        """Stops it from firing until it is resumed. Firings during the pause are not made up for."""
        return await self.alter(name, paused=True)

    async def resume(self, name: str) -> ScheduleInfo:
        return await self.alter(name, paused=False)

    async def run(self, name: str) -> ScheduleInfo:
        """Fires once, now, even if it is paused; its timetable does not change."""
        return await self._one(RunSchedule(name), repeatable=False)

    async def remove(self, name: str) -> None:
        await self._broker.call(RemoveSchedule(name), repeatable=False)

    async def _one(self, request: Message, *, repeatable: bool = True) -> ScheduleInfo:
        [found] = await self._answer(request, repeatable=repeatable)
        return found

    async def _answer(self, request: Message, *, repeatable: bool = True) -> Sequence[ScheduleInfo]:
        answer = (await self._broker.call(request, repeatable=repeatable)).answer
        if not isinstance(answer, ScheduleList):
            raise unexpected(answer)
        return answer.schedules


def _changes(given: dict[str, Any]) -> ScheduleChanges:
    known = {"cron", "timezone", "topic", "value", "key", "headers", "priority", "paused"}
    for name in given:
        if name not in known:
            raise TypeError(f"a schedule has no {name!r}; there are {', '.join(sorted(known))}")
    return ScheduleChanges(
        cron=given.get("cron", UNSET),
        timezone=given.get("timezone", UNSET),
        topic=given.get("topic", UNSET),
        value=value_bytes(given["value"]) if "value" in given else UNSET,
        key=key_bytes(given["key"]) if "key" in given else UNSET,
        headers=header_bytes(given["headers"]) or {} if "headers" in given else UNSET,
        priority=parse_priority(given["priority"]) if "priority" in given else UNSET,
        is_paused=given.get("paused", UNSET),
    )
