"""The settings of queue groups, in the bodies of topics and of groups."""

from typing import Annotated, Any

import msgspec

from quiver.gateways.http.field_notes import SETTING, note
from quiver.model.queue import QUEUE_SETTINGS

Duration = Annotated[str | int | float | None, note("Such as 500ms, 30s or 1h30m, or seconds.", **SETTING)]


class QueueSettingsBody(msgspec.Struct, kw_only=True):
    """On a topic, the defaults of its queue groups; on a group, its own."""

    max_attempts: Annotated[
        str | int | None, note("Deliveries, the first one included.", minimum=1, maximum=10_000)
    ] = None
    backoff: Annotated[
        str | int | float | None, note("The pause before the first retry; it doubles with each.", **SETTING)
    ] = None
    backoff_max: Duration = None
    visibility: Annotated[str | int | float | None, note("How long a lease lasts.", **SETTING)] = None
    max_unacked: Annotated[
        str | int | None, note("Messages that a consumer may hold at a time.", minimum=1, maximum=1_000_000)
    ] = None
    starvation: Annotated[
        str | int | float | None, note("A priority that was not served for this long comes next.", **SETTING)
    ] = None

    count_expired: Annotated[
        bool | str | None, note("Whether a delivery counts whose lease expired; for groups ordered by key.")
    ] = None

    def queue_settings(self) -> dict[str, Any]:
        """The settings that are present."""
        return {name: value for name in QUEUE_SETTINGS if (value := getattr(self, name)) is not None}
