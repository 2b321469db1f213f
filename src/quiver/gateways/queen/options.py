"""The options of a queue, and the settings of the topic that they become."""

from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from quiver.model.errors import InvalidRequest
from quiver.model.limits import Limits
from quiver.model.topic import Topic

NAMESPACE_LABEL, TASK_LABEL, OPTIONS_LABEL = "queen.namespace", "queen.task", "queen.options"
RETRY_DELAY_LABEL = "queen.retry-delay-ms"
"""Only where a client has asked for a delay: what failed comes again at once otherwise, whatever is shown."""
_MOST_UNACKED = 1_000_000
_LONGEST_SECONDS = 7 * 86_400
_LONGEST_TEXT = 1_024
_LONGEST_KEPT = 10 * 366 * 86_400
_LONGEST_DELAY_MS = _LONGEST_SECONDS * 1000

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[int, Meta(ge=0, le=_LONGEST_KEPT)]


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    lease_time: Annotated[int, Meta(ge=1, le=_LONGEST_SECONDS, description="Seconds that a pop leases messages.")] = (
        300
    )
    max_size: Annotated[Count, Meta(description="Pushes fail while so many messages wait; 0: no limit.")] = 0
    ttl: Annotated[
        Seconds, Meta(description="If it is given: messages that have waited longer become dead letters.")
    ] = 3600
    retry_limit: Annotated[
        int, Meta(ge=0, le=9_999, description="How often a batch that failed comes again before its dead letters.")
    ] = 3
    retry_delay: Annotated[
        Count, Meta(description="If it is given: milliseconds until a batch that failed comes again.")
    ] = 1000
    dead_letter_queue: Annotated[bool, Meta(description="Kept and shown; there are always dead letters.")] = False
    dlq_after_max_retries: Annotated[bool, Meta(description="Kept and shown; it is always so.")] = False
    priority: Annotated[
        int, Meta(description="Pops of a namespace or task look into queues with a higher one first.")
    ] = 0
    delayed_processing: Annotated[Seconds, Meta(description="Messages enter the queue this long after the push.")] = 0
    window_buffer: Annotated[
        Seconds, Meta(description="A partition is delivered when nothing was pushed to it for so long.")
    ] = 0
    retention_seconds: Annotated[Seconds, Meta(description="With `retentionEnabled`; 0: kept for ever.")] = 0
    completed_retention_seconds: Annotated[
        Seconds, Meta(description="With `retentionEnabled`: messages that every group is done with are removed.")
    ] = 0
    retention_enabled: bool = False
    encryption_enabled: Annotated[bool, Meta(description="True is refused.")] = False
    max_wait_time_seconds: Annotated[
        Seconds, Meta(description="Messages that have waited longer become dead letters; 0: never.")
    ] = 0
    dedup_window_seconds: Annotated[
        int, Meta(ge=0, le=_LONGEST_SECONDS, description="How long a transactionId is known in its partition.")
    ] = 3600


_DEFAULTS = QueueOptions()


class GivenOptions(QueueOptions, frozen=True, kw_only=True, rename="camel"):
    """As a client sends them. -1 stands for what it left out: these two have an effect only where they are given."""

    ttl: Annotated[int, Meta(ge=-1, le=_LONGEST_KEPT, description="If it is given, it has an effect.")] = -1
    retry_delay: Annotated[
        int, Meta(ge=-1, le=_LONGEST_DELAY_MS, description="If it is given, it has an effect.")
    ] = -1

    def complete(self) -> QueueOptions:
        """With the defaults of what was left out."""
        given = {name: getattr(self, name) for name in QueueOptions.__struct_fields__}
        for name in ("ttl", "retry_delay"):
            if given[name] < 0:
                del given[name]
        return QueueOptions(**given)


class QueueDefinition(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str = ""
    task: str = ""
    options: QueueOptions = _DEFAULTS
    ttl_seconds: int = 0
    """0: none was asked for."""
    retry_delay_ms: int = 0

    def check(self) -> None:
        """InvalidRequest for what this broker cannot do."""
        if self.options.encryption_enabled:
            raise InvalidRequest(problem="this broker cannot encrypt messages: leave encryptionEnabled out")
        for name, text in (("namespace", self.namespace), ("task", self.task)):
            if len(text.encode()) > _LONGEST_TEXT:
                raise InvalidRequest(problem=f"{name} has more than {_LONGEST_TEXT} bytes")


def definition_of(topic: Topic) -> QueueDefinition:
    labels = topic.config.labels
    return QueueDefinition(
        namespace=labels.get(NAMESPACE_LABEL, ""), task=labels.get(TASK_LABEL, ""), options=options_of(topic)
    )


def options_of(topic: Topic) -> QueueOptions:
    """A topic that was not made by this interface has the default options."""
    text = topic.config.labels.get(OPTIONS_LABEL)
    return _DEFAULTS if text is None else _options(text)


def retry_delay_ms(topic: Topic) -> int:
    """Until a batch that failed comes again."""
    text = topic.config.labels.get(RETRY_DELAY_LABEL, "")
    return int(text) if text.isdecimal() else 0


@lru_cache(maxsize=1024)
def _options(text: str) -> QueueOptions:
    try:
        return msgspec.json.decode(text, type=QueueOptions)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return _DEFAULTS  # somebody else wrote the label


def topic_settings(definition: QueueDefinition, labels: dict[str, str], limits: Limits) -> dict[str, Any]:
    """The settings of a topic, with the labels that it has already."""
    options = definition.options
    noted = {
        NAMESPACE_LABEL: definition.namespace,
        TASK_LABEL: definition.task,
        OPTIONS_LABEL: msgspec.json.encode(options).decode(),
    }
    labels = {name: text for name, text in labels.items() if name != RETRY_DELAY_LABEL}
    if definition.retry_delay_ms:
        noted[RETRY_DELAY_LABEL] = str(definition.retry_delay_ms)
    waits = [seconds for seconds in (options.max_wait_time_seconds, definition.ttl_seconds) if seconds]
    kept = options.retention_seconds if options.retention_enabled else 0
    kept_when_completed = options.completed_retention_seconds if options.retention_enabled else 0
    return {
        "visibility": options.lease_time,
        "max_attempts": options.retry_limit + 1,
        "backoff": 0,
        "count_expired": False,
        "max_unacked": _MOST_UNACKED,
        "dedup_window": options.dedup_window_seconds,
        "retention": kept or None,
        "settled_retention": kept_when_completed or None,
        "ttl": min(waits, default=None),
        "max_message_bytes": limits.frame_bytes // 2,
        "labels": {**labels, **noted},
    }
