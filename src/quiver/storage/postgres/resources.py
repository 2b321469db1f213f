"""What all logs of an engine share."""

from typing import NamedTuple

from quiver.storage.postgres.appending.appends import AppendBundler
from quiver.storage.postgres.appending.flushing import Flusher
from quiver.storage.postgres.appending.frame_cache import FrameCache
from quiver.storage.postgres.appending.recovery import Recovery
from quiver.storage.postgres.cleaner import Cleaner
from quiver.storage.postgres.database.database import Database
from quiver.system.randomness import Randomness
from quiver.system.threads import Threads


class PostgresResources(NamedTuple):
    database: Database
    recovery: Recovery
    appends: AppendBundler
    flusher: Flusher
    cache: FrameCache
    cleaner: Cleaner
    threads: Threads
    """For compaction."""
    randomness: Randomness
