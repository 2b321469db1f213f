"""Redrive jobs: worker 0 runs them, over the dead letters of all workers."""

from quiver.dead_letters.redrive_jobs import JobProgress, RedrivePlan
from quiver.routing.controller_route import ControllerRoute
from quiver.routing.dead_letters.requests import BeginJob, CancelJob, GetJob, ListJobs


class RoutedRedriveJobs:
    def __init__(self, controller: ControllerRoute) -> None:
        self._controller = controller

    async def begin(self, plan: RedrivePlan) -> JobProgress:
        return await self._controller.call(BeginJob(plan))

    async def list(self) -> list[JobProgress]:
        return await self._controller.call(ListJobs())

    async def get(self, id: str) -> JobProgress:
        return await self._controller.call(GetJob(id))

    async def cancel(self, id: str) -> JobProgress:
        return await self._controller.call(CancelJob(id))
