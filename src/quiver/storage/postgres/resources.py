"""What all logs of an engine share."""

from typing import NamedTuple

from quiver.model.errors import StorageUnavailable
from quiver.storage.postgres.appending.appends import AppendBundler
from quiver.storage.postgres.appending.flushing import CommitFlusher
from quiver.storage.postgres.appending.recovery import AppendRecovery
from quiver.storage.postgres.appending.tail_cache import TailCache
from quiver.storage.postgres.buffering.publish_buffer import PublishBuffer
from quiver.storage.postgres.cleaner import Cleaner
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.standby import StandbyReads
from quiver.system.randomness import Randomness
from quiver.system.threads import Threads


class PostgresResources(NamedTuple):
    database: Database
    recovery: AppendRecovery
    appends: AppendBundler
    flusher: CommitFlusher
    cache: TailCache
    cleaner: Cleaner
    threads: Threads
    """For compaction."""
    randomness: Randomness
    standby: StandbyReads | None = None
    """For old frames, if there is one."""
    buffer: PublishBuffer | None = None
    """For publishes while the database is away, if there is one."""

    @property
    def outage(self) -> StorageUnavailable | None:
        problem = self.database.problem
        if problem is not None and self.buffer is not None and self.buffer.problem is not None:
            problem = self.buffer.problem
        return None if problem is None else StorageUnavailable(problem=problem)
