"""Who has the replicas of a unit, and who of them counts: what coordination keeps. Pure."""

import msgspec

NOBODY = -1


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Two write it, both by compare-and-swap: the leader `isr` and `elr`, the controller everything else."""

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

    @property
    def key_value(self) -> bytes:
        return msgspec.json.encode(self)

    def with_set(self, isr: tuple[int, ...]) -> "Unit":
        """With another in-sync set. Whoever leaves a set that falls below `min_isr` is eligible; nobody needs to be
        once the set is large enough, because from then on something may be committed without them."""
        if len(isr) >= self.min_isr:
            return msgspec.structs.replace(self, isr=isr, elr=())
        left = [node for node in (*self.isr, *self.elr) if node not in isr]
        return msgspec.structs.replace(self, isr=isr, elr=tuple(dict.fromkeys(left)))


def decode_unit(value: bytes) -> Unit:
    return msgspec.json.decode(value, type=Unit)
