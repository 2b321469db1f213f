"""Health and status of all workers."""

from quiver.broker.broker import Broker
from quiver.broker.health import HealthReport
from quiver.broker.node import ClusterStatus
from quiver.model.errors import QuiverError
from quiver.routing.looks.requests import GetHealth, GetStatus
from quiver.routing.scatter import Scatter


class RoutedNode:
    def __init__(self, local: Broker, scatter: Scatter) -> None:
        self._local, self._scatter = local.node, scatter

    async def health(self) -> HealthReport:
        """What is wrong with any worker; one that does not respond is a problem."""
        look = await self._scatter.look(GetHealth(), self._local.health)
        problems = {f"worker {worker}": _reason(error) for worker, error in look.missing.items()}
        warnings: dict[str, str] = {}
        for worker, report in sorted(look.answers.items()):
            problems |= {f"worker {worker}: {name}": why for name, why in report.problems.items()}
            warnings |= {f"worker {worker}: {name}": why for name, why in report.warnings.items()}
        return HealthReport(problems, warnings)

    async def cluster(self) -> ClusterStatus:
        look = await self._scatter.look(GetStatus(), self._local.worker)
        return ClusterStatus(look.values(), {worker: _reason(error) for worker, error in look.missing.items()})


def _reason(error: QuiverError) -> str:
    return str(error.details.get("problem", error))
