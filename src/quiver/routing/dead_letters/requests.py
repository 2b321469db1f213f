"""What workers ask of each other about dead letters. Each speaks of the partitions that it owns."""

from quiver.broker.broker import Broker
from quiver.dead_letters.page import DeadLetterPage, RemovedDeadLetterPage
from quiver.dead_letters.redrive_jobs import JobProgress, RedrivePlan
from quiver.dead_letters.search import Search
from quiver.dead_letters.taking import DeadLettersTaken
from quiver.model.dead_letter import DeadLetterCursor, DeadLetterFilter, DeadLetterId
from quiver.routing.owned_request import OwnedRequest


class PageOfDeadLetters(OwnedRequest[DeadLetterPage], frozen=True):
    capability, method = "dead_letters", "page"
    topic: str
    search: Search
    limit: int

    async def carry_out(self, broker: Broker) -> DeadLetterPage:
        return await broker.dead_letters.page(self.topic, self.search, limit=self.limit)


class FindDeadLetters(OwnedRequest[list[DeadLetterCursor]], frozen=True):
    capability, method = "dead_letters", "find"
    topic: str
    search: Search
    limit: int

    async def carry_out(self, broker: Broker) -> list[DeadLetterCursor]:
        return await broker.dead_letters.find(self.topic, self.search, limit=self.limit)


class CountDeadLetters(OwnedRequest[int], frozen=True):
    capability, method = "dead_letters", "count"
    topic: str

    async def carry_out(self, broker: Broker) -> int:
        return await broker.dead_letters.count(self.topic)


class RemovedRuns(OwnedRequest[RemovedDeadLetterPage], frozen=True):
    capability, method = "dead_letters", "removed"
    topic: str
    start: DeadLetterId

    async def carry_out(self, broker: Broker) -> RemovedDeadLetterPage:
        return await broker.dead_letters.removed(self.topic, self.start)


class TakeDeadLetters(OwnedRequest[DeadLettersTaken], frozen=True):
    """A redrive or a purge of those that are named. A repeat finds nothing left."""

    capability, method = "dead_letters", "take"
    topic: str
    ids: list[DeadLetterId]
    is_purge: bool
    to: str | None
    dry_run: bool

    async def carry_out(self, broker: Broker) -> DeadLettersTaken:
        search = Search(DeadLetterFilter(ids=[(id.partition, id.offset) for id in self.ids]))
        if self.is_purge:
            return await broker.dead_letters.purge(self.topic, search, dry_run=self.dry_run)
        return await broker.dead_letters.redrive(self.topic, search, to=self.to, dry_run=self.dry_run)


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


DEAD_LETTER_REQUESTS = (
    PageOfDeadLetters,
    FindDeadLetters,
    CountDeadLetters,
    RemovedRuns,
    TakeDeadLetters,
    BeginJob,
    ListJobs,
    GetJob,
    CancelJob,
)
