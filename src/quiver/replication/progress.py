"""How far the replicas of one log are, and what of it is committed. Pure."""

from collections.abc import Iterable


class LogProgress:
    """One epoch of one log, at its leader."""

    __slots__ = ("election_end", "ends", "min_replicas", "needed", "synced", "synced_watermark", "watermark")

    def __init__(self, election_end: int) -> None:
        self.election_end = election_end
        """What the leader had at its election; 0 for a log that was made since."""
        self.ends: dict[int, int] = {}
        """By replica: the end that it has confirmed in this epoch."""
        self.synced: dict[int, int] = {}
        """The same, of what it has synced."""
        self.watermark = 0
        """Below is what is committed, as far as this leader knows."""
        self.synced_watermark = 0
        """Below is what everybody who must confirm has synced."""
        self.min_replicas = 0
        """What the log asks for itself."""
        self.needed = 1
        """How many must be in the in-sync set for the watermark to move."""

    @property
    def is_open(self) -> bool:
        """Everything that was there at the election is committed."""
        return self.watermark >= self.election_end

    @property
    def enough(self) -> int:
        """Whoever joins has everything below: it may be committed, also by leaders before this one."""
        return max(self.watermark, self.election_end)

    def confirm(self, replica: int, end_offset: int, synced_offset: int) -> None:
        """Confirmations may come late and repeatedly."""
        self.ends[replica] = max(end_offset, self.ends.get(replica, -1))
        self.synced[replica] = max(synced_offset, self.synced.get(replica, -1))

    def forget(self, replica: int) -> None:
        """It was started again: what it had confirmed counts no longer."""
        self.ends.pop(replica, None)
        self.synced.pop(replica, None)

    def advance(self, members: Iterable[int]) -> bool:
        """Whether a watermark has moved, with everybody who must confirm."""
        members = tuple(members)
        before = self.watermark, self.synced_watermark
        self.watermark = max(self.watermark, min([self.ends.get(node, -1) for node in members]))
        self.synced_watermark = max(self.synced_watermark, min([self.synced.get(node, -1) for node in members]))
        return (self.watermark, self.synced_watermark) != before
