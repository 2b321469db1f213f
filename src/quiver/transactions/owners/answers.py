"""What the coordinator answers owners."""

from collections.abc import Iterable

from quiver.transactions.coordinator import Coordinator
from quiver.transactions.events import Participant
from quiver.transactions.owners.port import OpenInLog, Outcomes, Question


class CoordinatorAnswers:
    """Every answer holds for the present term: what it does not know was not committed."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def join(self, producer_id: int, epoch: int, participant: Participant) -> int:
        self._coordinator.join(producer_id, epoch).participants[participant] = None
        return self._coordinator.term

    async def outcomes(self, question: Question) -> Outcomes:
        self._coordinator.check_ready()
        return Outcomes(
            self._coordinator.term,
            [self._coordinator.outcome(decision) for decision in question.decisions],
            list(self._of_opened(question.opened)),
        )

    def _of_opened(self, opened: Iterable[OpenInLog]) -> Iterable[bool | None]:
        for producer_id, epoch, participant in opened:
            transaction = self._coordinator.open.get(producer_id)
            if transaction is not None and transaction.epoch == epoch:
                transaction.participants[participant] = None
                yield None
            else:
                yield self._coordinator.state.was_committed(producer_id, epoch)
