"""Who has the replicas of a unit, and who of them counts: what coordination keeps. Pure.

A unit is a worker of the installation: all logs that its broker opens share a leader, an epoch and an in-sync set.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from quiver.model.names import StartEpoch

PREFIX = "unit/"
NOBODY = -1
WORKER_BITS = 8
"""An installation has at most 256 workers."""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Two write it, both by compare-and-swap: the leader `isr`, `elr`, `joined`, `is_volatile` and `wants_successor`,
    the controller everything."""

    replicas: tuple[int, ...]
    """Nodes, the preferred leader first."""
    isr: tuple[int, ...]
    """The in-sync set: they have everything that is committed, and must confirm what is to be committed."""
    elr: tuple[int, ...] = ()
    """Eligible leaders: they left the set while it was below `min_isr`, so they have all that is committed."""
    leader: int = NOBODY
    incarnation: int = 0
    """Of the leader's process: one that was started again does not lead."""
    epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    min_isr: int = 1
    joined: dict[int, int] = {}
    """By node: the incarnation that was known to have everything."""
    is_volatile: bool = False
    """It has logs that are acked before they are synced: a member that has stopped uncleanly since it joined may have
    lost some of it."""
    wants_successor: bool = False
    """The leader is below `min_isr` and too few others reply to it: if they live, one of them is to lead."""
    loss_epoch: int = 0
    """The last epoch that began without anybody who had surely everything: offsets may have been lost before it."""
    throttle_bytes_per_sec: int = 0
    """The most that the leader sends to the nodes in `adding` together; 0: its node's limit counts for them too. It
    ends with the reassignment."""
    later: dict[str, Any] = {}
    """Fields that a later version has added, by name: whoever writes the unit leaves them as they are."""

    @property
    def key_value(self) -> bytes:
        fields = msgspec.structs.asdict(self)
        return msgspec.json.encode(fields.pop("later") | fields)

    @property
    def has_enough(self) -> bool:
        return len(self.isr) >= self.min_isr

    def with_set(
        self, isr: tuple[int, ...], *, lost: Collection[int] = (), joined: Mapping[int, int] | None = None
    ) -> "Unit":
        """With another in-sync set. Whoever leaves a set that falls below `min_isr` is eligible, unless it has lost
        something; nobody needs to be once the set is large enough, because from then on something may be committed
        without them."""
        left = [node for node in (*self.isr, *self.elr) if node not in isr and node not in lost]
        elr = () if len(isr) >= self.min_isr else tuple(dict.fromkeys(left))
        known = {**self.joined, **(joined or {})}
        kept = {node: known[node] for node in (*isr, *elr) if node in known}
        return msgspec.structs.replace(self, isr=isr, elr=elr, joined=kept)


def decode_unit(value: bytes) -> Unit:
    fields = msgspec.json.decode(value)
    unit = msgspec.convert(fields, Unit, str_keys=True)
    later = {name: found for name, found in fields.items() if name not in Unit.__struct_fields__}
    return msgspec.structs.replace(unit, later=later) if later else unit


def unit_key(worker: int) -> str:
    return f"{PREFIX}{worker}"


def start_epoch(worker: int, epoch: int) -> StartEpoch:
    """Of the broker that runs a worker in an epoch of its unit: rises with the epoch, and no other worker has it."""
    return StartEpoch(epoch << WORKER_BITS | worker)
