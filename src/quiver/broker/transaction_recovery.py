"""At start-up: what was decided is finished, what was open is aborted."""

import asyncio
import logging
from collections.abc import Iterable

from quiver.broker.finishing import Finishing
from quiver.model.errors import QuiverError
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.events import Place

logger = logging.getLogger(__name__)

_AT_ONCE = 100


async def recover(coordinator: Coordinator, finishing: Finishing) -> None:
    """Returns when every transaction is over; markers that could not be written are tried again beside."""
    for decided in list(coordinator.state.unfinished.values()):
        await finishing.carry_out(decided)
    left_over: dict[tuple[int, int], list[Place]] = {}
    committed: dict[tuple[int, int], list[Place]] = {}
    for key, place in finishing.open_in_logs():
        outcome = committed if coordinator.state.outcome(*key) else left_over
        outcome.setdefault(key, []).append(place)
    decided_now = await coordinator.abort_left_over(left_over)
    if decided_now is not None:
        logger.info("%d transactions were open when the broker stopped and are aborted", len(decided_now.endings))
        await finishing.carry_out(decided_now)
        for ending in decided_now.endings:
            left_over.pop((ending.producer_id, ending.epoch), None)
    await _mark(finishing, committed.items(), commit=True)
    await _mark(finishing, left_over.items(), commit=False)


async def _mark(finishing: Finishing, found: Iterable[tuple[tuple[int, int], list[Place]]], *, commit: bool) -> None:
    """Transactions of epochs that are over: the decision is known, or there is nobody to ask for one."""
    markers = [(key, place) for key, places in found for place in places]
    for at in range(0, len(markers), _AT_ONCE):
        results = await asyncio.gather(
            *(finishing.mark(*key, place, commit=commit) for key, place in markers[at : at + _AT_ONCE]),
            return_exceptions=True,
        )
        for problem in results:
            if isinstance(problem, QuiverError | OSError):
                logger.warning("the end of a transaction could not be written: %s", problem)
