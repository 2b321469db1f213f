"""What workers ask of each other about dead letters. Each speaks of the partitions that it owns."""

from quiver.dead_letters.page import DeadLetterPage, RemovedDeadLetterPage
from quiver.dead_letters.redrive_jobs import JobProgress, RedrivePlan
from quiver.dead_letters.search import Search
from quiver.dead_letters.taking import DeadLettersTaken
from quiver.links.request import PeerRequest
from quiver.model.dead_letter import DeadLetterCursor, DeadLetterId


class PageOfDeadLetters(PeerRequest[DeadLetterPage], frozen=True):
    capability, method = "dead_letters", "page"
    topic: str
    search: Search
    limit: int


class FindDeadLetters(PeerRequest[list[DeadLetterCursor]], frozen=True):
    capability, method = "dead_letters", "find"
    topic: str
    search: Search
    limit: int


class CountDeadLetters(PeerRequest[int], frozen=True):
    capability, method = "dead_letters", "count"
    topic: str


class RemovedRuns(PeerRequest[RemovedDeadLetterPage], frozen=True):
    capability, method = "dead_letters", "removed"
    topic: str
    start: DeadLetterId


class TakeDeadLetters(PeerRequest[DeadLettersTaken], frozen=True):
    """A redrive or a purge of those that are named. A repeat finds nothing left."""

    capability, method = "dead_letters", "take"
    topic: str
    ids: list[DeadLetterId]
    is_purge: bool
    to: str | None
    dry_run: bool


class BeginJob(PeerRequest[JobProgress], frozen=True):
    """Of worker 0, as the following."""

    capability, method = "dead_letters", "begin_job"
    plan: RedrivePlan


class ListJobs(PeerRequest[list[JobProgress]], frozen=True):
    capability, method = "dead_letters", "list_jobs"


class GetJob(PeerRequest[JobProgress], frozen=True):
    capability, method = "dead_letters", "get_job"
    id: str


class CancelJob(PeerRequest[JobProgress], frozen=True):
    capability, method = "dead_letters", "cancel_job"
    id: str
