"""windowBuffer: nothing of a partition is delivered until nothing was pushed to it for some seconds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quiver.gateways.queen.options import options_of
from quiver.messages.browse import BrowseRequest
from quiver.model.limits import MESSAGES_AT_ONCE
from quiver.model.settlement import NACK, SettleRequest
from quiver.model.topic import Topic
from quiver.records.read import open_frame

if TYPE_CHECKING:
    from quiver.queues.service import Received
    from quiver.routing.facade import Facade


def has_window(topic: Topic) -> bool:
    return options_of(topic).window_buffer > 0


class WindowGate:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def passed(self, received: "Sequence[Received]") -> "list[Received]":
        """What comes from partitions whose window is over. The others are given back, and are not available before
        its end."""
        lanes: dict[tuple[int, int, bytes | None], list[Received]] = {}
        for one in received:
            key = open_frame(one.run.frame).keys()[0]
            lanes.setdefault((one.topic.id, one.run.partition, key), []).append(one)
        kept: list[Received] = []
        back: list[SettleRequest] = []
        for (_, partition, key), runs in lanes.items():
            wait_ms = await self._wait_ms(runs[0].topic, partition, key)
            if wait_ms > 0:
                back.append(_given_back(runs[0], wait_ms))
            else:
                kept += runs
        if back:
            await self._broker.queues.settle(back)
        return kept

    async def _wait_ms(self, topic: Topic, partition: int, key: bytes | None) -> int:
        """Until nothing was pushed for the window; what was pushed within it is looked at."""
        window_ms = options_of(topic).window_buffer * 1000
        now_ms = self._broker.clock.now_ms()
        at, newest_ms = 0, None
        while window_ms:
            asked = BrowseRequest(offset=at, limit=MESSAGES_AT_ONCE, from_time_ms=now_ms - window_ms)
            page = await self._broker.read_messages(topic.name, partition, asked)
            newest_ms = max((each.append_time_ms for each in page.messages if each.key == key), default=newest_ms)
            if page.next_offset <= at or not page.messages:
                break
            at = page.next_offset
        return 0 if newest_ms is None else newest_ms + window_ms - now_ms


def _given_back(one: "Received", delay_ms: int) -> SettleRequest:
    """With everything that comes after it in its partition."""
    run = one.run
    first = (run.start, run.start + 1)
    return SettleRequest(
        one.topic.id, run.partition, run.group_id, run.lease_id, NACK, [first], delay_ms, is_counted=False
    )
