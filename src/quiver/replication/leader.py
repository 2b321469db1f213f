"""What the leader of a log decides: the watermark, and who is in the in-sync set. Pure.

The set is changed in coordination first. While it is not known whether a change was made, old and new members must
confirm.
"""

from quiver.replication.unit import Unit


class Leader:
    """`propose` gives a change to write; `adopt` what coordination has, whoever wrote it."""

    def __init__(self, node: int, unit: Unit, revision: int, end_offset: int) -> None:
        """`end_offset` is what this replica has on disk at its election."""
        self.node, self.epoch = node, unit.epoch
        self.unit, self.revision = unit, revision
        """As coordination had it when it was last read."""
        self.proposed: Unit | None = None
        """Written over that revision, with an outcome that is not known."""
        self.election_end = end_offset
        self.watermark = 0
        """Below is what is committed, as far as this leader knows."""
        self._ends = {node: end_offset}
        """By replica: the end that it has confirmed in this epoch."""

    @property
    def is_open(self) -> bool:
        """Everything that it had at its election is committed: it may serve."""
        return self.watermark >= self.election_end

    @property
    def members(self) -> tuple[int, ...]:
        """Who must confirm."""
        return self.unit.isr if self.proposed is None else tuple({*self.unit.isr, *self.proposed.isr})

    def confirmed(self, replica: int) -> int | None:
        return self._ends.get(replica)

    def confirm(self, replica: int, end_offset: int) -> bool:
        """A replica has everything below an offset on disk. Confirmations may come late and repeatedly. Returns
        whether the watermark has moved."""
        if replica not in self.unit.replicas or end_offset <= self._ends.get(replica, -1):
            return False
        self._ends[replica] = end_offset
        return self._advance()

    def joiners(self) -> tuple[int, ...]:
        """Replicas outside the set that have everything that is committed, also by leaders before this one: what it
        had at its election may be."""
        enough = max(self.watermark, self.election_end)
        outside = (node for node in self.unit.replicas if node not in self.unit.isr)
        return tuple(node for node in outside if self._ends.get(node, -1) >= enough)

    def propose(self, isr: tuple[int, ...]) -> Unit | None:
        """The unit with another set, to be written over the revision of `unit`; None where nothing would change. From
        now on the new members count. While the outcome of a change is not known, it is that change again."""
        if self.proposed is not None:
            return self.proposed
        wanted = tuple(node for node in self.unit.replicas if node in isr or node == self.node)
        if set(wanted) == set(self.unit.isr):
            return None
        self.proposed = self.unit.with_set(wanted)
        return self.proposed

    def adopt(self, unit: Unit, revision: int) -> bool:
        """What coordination has now. With another revision than before, what was proposed is in it or will never be;
        with the same one it may still come. False: this leader is deposed."""
        if unit.epoch != self.epoch or unit.leader != self.node:
            return False
        if revision > self.revision:
            self.unit, self.revision, self.proposed = unit, revision, None
            self._advance()
        return True

    def _advance(self) -> bool:
        if len(self.unit.isr) < self.unit.min_isr:
            return False
        least = min(self._ends.get(node, -1) for node in self.members)
        if least <= self.watermark:
            return False
        self.watermark = least
        return True
