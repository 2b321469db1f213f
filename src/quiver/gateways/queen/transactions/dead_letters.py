"""Messages that a transaction gives up: it publishes them as dead letters, and acks them."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quiver.dead_letters.headers import DeadLetterOrigin, dead_letter_settings, to_dead_letter
from quiver.gateways.queen.acks.held_acks import HeldAcks
from quiver.gateways.queen.acks.rules import Plan
from quiver.gateways.queen.transactions.frames import Push
from quiver.messages.browse import BrowseRequest
from quiver.messages.stored_rows import StoredRow
from quiver.model.dead_letter import dead_letter_topic
from quiver.model.errors import TopicExists, TopicNotFound
from quiver.model.message import NewMessage, StoredMessage
from quiver.model.settlement import REJECT
from quiver.model.topic import Topic
from quiver.queues.state.port import Dead

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_REASON = "rejected"


async def dead_letters(broker: "Facade", planned: Sequence[tuple[HeldAcks, Plan]]) -> list[Push]:
    """The messages for the dead-letter topics, which are created if need be."""
    found: list[Push] = []
    for one, plan in planned:
        if not plan.dead:
            continue
        target = await _topic(broker, one.place.topic)
        runs = [(run, step.error) for step in plan.steps if step.action == REJECT for run in step.runs]
        for run, error in runs:
            messages = await _read(broker, one, *run)
            found += [Push(target, _letter(broker, one, message, error)) for message in messages]
    return found


async def _topic(broker: "Facade", topic: Topic) -> Topic:
    name, count = dead_letter_topic(topic.name), topic.config.partitions
    try:
        found = broker.topic(name)
    except TopicNotFound:
        with contextlib.suppress(TopicExists):
            return await broker.create_topic(name, dead_letter_settings(topic, count))
        found = broker.topic(name)
    return found if found.config.partitions >= count else await broker.alter_topic(name, {"partitions": count})


async def _read(broker: "Facade", one: HeldAcks, start: int, end: int) -> list[StoredMessage]:
    """Those that retention has not removed."""
    found: list[StoredMessage] = []
    while start < end:
        asked = BrowseRequest(offset=start, limit=end - start, include_expired=True)
        page = await broker.read_messages(one.place.topic.name, one.held.partition, asked)
        found += [each for each in page.messages if each.offset < end]
        if page.next_offset <= start or not page.messages:
            break
        start = page.next_offset
    return found


def _letter(broker: "Facade", one: HeldAcks, message: StoredMessage, error: str) -> NewMessage:
    place, held = one.place, one.held
    dead = Dead(message.offset, message.offset + 1, message.priority, held.attempt, 0, _REASON, error)
    row = StoredRow(
        message.offset,
        message.append_time_ms,
        0,
        NewMessage(
            value=message.value,
            key=message.key,
            headers=message.headers,
            timestamp_ms=message.timestamp_ms,
            partition=held.partition,
            priority=message.priority,
        ),
    )
    origin = DeadLetterOrigin(place.topic.name, held.partition, place.group.name, broker.clock.now_ms(), dead)
    return to_dead_letter(row, origin)
