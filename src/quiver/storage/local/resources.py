"""What the logs of one data directory share."""

import dataclasses

from quiver.storage.compactor import Compactor
from quiver.storage.local.free_space import FreeSpace
from quiver.storage.local.wal.log import WriteAheadLog
from quiver.storage.local.write_behind import Flusher
from quiver.system.randomness import Randomness
from quiver.system.threads import Threads


@dataclasses.dataclass(slots=True)
class LocalResources:
    writes: Threads
    reads: Threads
    background: Threads
    """For what nobody waits for: flushes, retention, snapshots, the small part of compaction."""
    space: FreeSpace
    flusher: Flusher
    wal: WriteAheadLog
    wal_writes: Threads
    compactor: Compactor
    randomness: Randomness

    def threads(self) -> tuple[Threads, ...]:
        return self.writes, self.reads, self.background, self.wal_writes
