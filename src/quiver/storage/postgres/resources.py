"""What all logs of an engine share."""

from typing import NamedTuple

from quiver.storage.postgres.appends import AppendBundler
from quiver.storage.postgres.cleaner import Cleaner
from quiver.storage.postgres.database import Database
from quiver.storage.postgres.flushing import Flusher
from quiver.storage.postgres.frame_cache import FrameCache
from quiver.storage.postgres.recovery import Recovery
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
