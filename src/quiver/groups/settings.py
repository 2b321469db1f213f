"""The settings of a group."""

from collections.abc import Mapping
from typing import Any

import msgspec

from quiver.model.limits import DAY_MS
from quiver.model.queue import QUEUE_SETTINGS, QueueSettings
from quiver.model.settings import Setting, duration, parse_settings
from quiver.model.times import format_duration

_SETTINGS = {"offsets_retention": Setting("offsets_retention_ms", duration(0, 3650 * DAY_MS)), **QUEUE_SETTINGS}


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    offsets_retention_ms: int = 7 * DAY_MS
    """The offsets of a group without members are kept this long."""
    queue: dict[str, int | bool] = {}
    """Fields of QueueSettings that the group overrides; the others are the topic's."""

    def for_topic(self, defaults: QueueSettings) -> QueueSettings:
        return msgspec.structs.replace(defaults, **self.queue) if self.queue else defaults

    def settings(self) -> dict[str, Any]:
        """With the names and in the form that users write; only those queue settings that the group overrides."""
        own = self.for_topic(QueueSettings()).settings()
        chosen = {name: own[name] for name, setting in QUEUE_SETTINGS.items() if setting.field in self.queue}
        return {"offsets_retention": format_duration(self.offsets_retention_ms), **chosen}

    def changed(self, settings: Mapping[str, Any]) -> "GroupSettings":
        """With users' settings applied; null removes an override of a queue setting."""
        given = {name: value for name, value in settings.items() if value is not None or name not in QUEUE_SETTINGS}
        fields = parse_settings("group", _SETTINGS, given)
        dropped = {QUEUE_SETTINGS[name].field for name in settings.keys() - given.keys()}
        queue = {name: value for name, value in self.queue.items() if name not in dropped}
        queue |= {name: fields.pop(name) for name in QueueSettings.__struct_fields__ if name in fields}
        return msgspec.structs.replace(self, queue=queue, **fields)
