"""The names of consumer groups in a data directory, without the broker it belongs to."""

from pathlib import Path

import msgspec

from quiver.groups.events import Event
from quiver.groups.service import LOG_ID as GROUPS_LOG
from quiver.groups.table import GroupTable
from quiver_spark.direct.journal import replay_journal

_EVENT = msgspec.json.Decoder(Event)


def group_names(root: Path) -> dict[int, str]:
    """By id: those that there are now."""
    table = GroupTable()
    replay_journal(root, GROUPS_LOG, restore=table.restore, apply=lambda record: table.apply(_EVENT.decode(record)))
    return table.names
