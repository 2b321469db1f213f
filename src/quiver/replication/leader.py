"""What the leader of a unit decides: the watermarks of its logs, and who is in the in-sync set. Pure.

The set is changed in coordination first. While it is not known whether a change was made, old and new members must
confirm.
"""

from collections.abc import Collection, Mapping

import msgspec

from quiver.replication.progress import LogProgress
from quiver.replication.unit import Unit


class Leader:
    """Logs have numbers. `propose` gives a change to write; `adopt` what coordination has, whoever wrote it."""

    def __init__(self, node: int, unit: Unit, revision: int) -> None:
        self.node, self.epoch = node, unit.epoch
        self.unit, self.revision = unit, revision
        """As coordination had it when it was last read."""
        self.proposed: Unit | None = None
        """Written over that revision, with an outcome that is not known."""
        self.logs: dict[int, LogProgress] = {}
        self._members = unit.isr

    def add_log(self, number: int, *, election_end: int, end_offset: int) -> LogProgress:
        """A log whose end on this replica's disk is `end_offset`."""
        progress = self.logs[number] = LogProgress(election_end)
        self._set_needed(progress)
        self.confirm(self.node, number, end_offset, end_offset)
        return progress

    def configure(self, number: int, min_replicas: int) -> bool:
        """A log asks for more replicas in sync than its unit, or no longer. Returns whether a watermark has moved."""
        progress = self.logs.get(number)
        if progress is None:
            return False
        progress.min_replicas = min_replicas
        self._set_needed(progress)
        return self._advance(progress)

    def _set_needed(self, progress: LogProgress) -> None:
        progress.needed = max(self.unit.min_isr, min(progress.min_replicas, len(self.unit.replicas)))

    def _advance(self, progress: LogProgress) -> bool:
        return len(self.unit.isr) >= progress.needed and progress.advance(self._members)

    def remove_log(self, number: int) -> None:
        self.logs.pop(number, None)

    @property
    def is_open(self) -> bool:
        """Everything that it had at its election is committed: it may serve."""
        return all(progress.is_open for progress in self.logs.values())

    @property
    def members(self) -> tuple[int, ...]:
        """Who must confirm."""
        return self._members

    def confirm(self, replica: int, number: int, end_offset: int, synced_offset: int) -> bool:
        """A replica has everything of a log below an offset, and has synced what is below another one. Returns
        whether a watermark has moved."""
        progress = self.logs.get(number)
        if progress is None or replica not in self.unit.replicas:
            return False
        progress.confirm(replica, end_offset, synced_offset)
        return self._advance(progress)

    def forget(self, replica: int) -> None:
        """A replica was started again."""
        for progress in self.logs.values():
            progress.forget(replica)

    def is_caught_up(self, replica: int) -> bool:
        """It has everything that is committed, of all logs, also by leaders before this one: what this one had at its
        election may be."""
        return all(progress.ends.get(replica, -1) >= progress.enough for progress in self.logs.values())

    def joiners(self) -> tuple[int, ...]:
        """Replicas outside the set that may join it."""
        outside = (node for node in self.unit.replicas if node not in self.unit.isr)
        return tuple(node for node in outside if self.is_caught_up(node))

    def propose(
        self,
        isr: Collection[int],
        *,
        joined: Mapping[int, int] | None = None,
        lost: Collection[int] = (),
        is_volatile: bool = False,
        is_alone: bool = False,
    ) -> Unit | None:
        """The unit with another set, to be written over the revision of `unit`; None where nothing would change. From
        now on the new members count. While the outcome of a change is not known, it is that change again.

        `is_alone`: too few others have replied for some time."""
        if self.proposed is not None:
            return self.proposed
        wanted = tuple(node for node in self.unit.replicas if node in isr or node == self.node)
        is_volatile = is_volatile or self.unit.is_volatile
        wants_successor = is_alone and len(wanted) < self.unit.min_isr
        flags = is_volatile, wants_successor
        if set(wanted) == set(self.unit.isr) and flags == (self.unit.is_volatile, self.unit.wants_successor):
            return None
        new = {node: known for node, known in (joined or {}).items() if node not in self.unit.isr}
        proposed = self.unit.with_set(wanted, lost=lost, joined=new)
        self.proposed = msgspec.structs.replace(proposed, is_volatile=is_volatile, wants_successor=wants_successor)
        self._members = tuple({*self.unit.isr, *wanted})
        return self.proposed

    def adopt(self, unit: Unit, revision: int) -> bool:
        """What coordination has now. With another revision than before, what was proposed is in it or will never be;
        with the same one it may still come. False: this leader is deposed."""
        if unit.epoch != self.epoch or unit.leader != self.node:
            return False
        if revision > self.revision:
            self.unit, self.revision, self.proposed = unit, revision, None
            self._members = unit.isr
            for progress in self.logs.values():
                self._set_needed(progress)
                self._advance(progress)
        return True
