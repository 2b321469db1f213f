"""What workers ask of each other about dead letters. Each speaks of the partitions that it owns."""

from quiver.broker.broker import Broker
from quiver.dead_letters.page import DeadLetterPage, RemovedDeadLetterPage
from quiver.dead_letters.redrive_jobs import JobProgress, RedrivePlan
from quiver.dead_letters.search import Search
from quiver.dead_letters.taking import DeadLettersTaken
from quiver.links.request import PeerRequest
from quiver.model.dead_letter import DeadLetterCursor, DeadLetterId
from quiver.routing.owned_request import OwnedRequest


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


class BeginJob(OwnedRequest[JobProgress], frozen=True):
    """Of worker 0, as the following."""

    capability, method = "dead_letters", "begin_job"
    plan: RedrivePlan

    async def carry_out(self, broker: Broker) -> JobProgress:
        return await broker.redrive_jobs.begin(self.plan)


class ListJobs(OwnedRequest[list[JobProgress]], frozen=True):
    capability, method = "dead_letters", "list_jobs"

    async def carry_out(self, broker: Broker) -> list[JobProgress]:
        return await broker.redrive_jobs.list()


class GetJob(OwnedRequest[JobProgress], frozen=True):
    capability, method = "dead_letters", "get_job"
    id: str

    async def carry_out(self, broker: Broker) -> JobProgress:
        return await broker.redrive_jobs.get(self.id)


class CancelJob(OwnedRequest[JobProgress], frozen=True):
    capability, method = "dead_letters", "cancel_job"
    id: str

    async def carry_out(self, broker: Broker) -> JobProgress:
        return await broker.redrive_jobs.cancel(self.id)


REDRIVE_JOB_REQUESTS = (BeginJob, ListJobs, GetJob, CancelJob)
