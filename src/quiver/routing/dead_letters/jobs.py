"""Redrive jobs: worker 0 runs them, over the dead letters of all workers."""

from quiver.cluster.placement import CONTROLLER
from quiver.dead_letters.redrive_jobs import JobProgress, RedrivePlan
from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.routing.dead_letters.requests import BeginJob, CancelJob, GetJob, ListJobs


class RoutedRedriveJobs:
    """Of a worker that runs none."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def begin(self, plan: RedrivePlan) -> JobProgress:
        return await self._call(BeginJob(plan))

    async def list(self) -> list[JobProgress]:
        return await self._call(ListJobs())

    async def get(self, id: str) -> JobProgress:
        return await self._call(GetJob(id))

    async def cancel(self, id: str) -> JobProgress:
        return await self._call(CancelJob(id))

    async def _call(self, request: PeerRequest[R]) -> R:
        return (await self._peers.call(CONTROLLER, request)).value
