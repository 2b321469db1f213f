"""The settings of queue groups, as bodies of topics and of groups carry them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from quiver.model.queue import QUEUE_SETTINGS

Duration = Annotated[str | int | float | None, Meta(description="Such as 500ms, 30s or 1h30m, or seconds.")]


class QueueSettingsBody(msgspec.Struct, kw_only=True):
    """On a topic the default of its queue groups, on a group its own."""

    max_attempts: Annotated[str | int | None, Meta(description="Deliveries, the first one included.")] = None
    backoff: Annotated[
        str | int | float | None, Meta(description="The pause before the first retry; it doubles with each.")
    ] = None
    backoff_max: Duration = None
    visibility: Annotated[str | int | float | None, Meta(description="How long a lease lasts.")] = None
    max_unacked: Annotated[str | int | None, Meta(description="Messages that a consumer may hold at a time.")] = None
    starvation: Annotated[
        str | int | float | None, Meta(description="A priority that was not served for this long comes next.")
    ] = None

    def queue_settings(self) -> dict[str, Any]:
        """What is present."""
        return {name: value for name in QUEUE_SETTINGS if (value := getattr(self, name)) is not None}
