"""At start-up: what was decided is finished, what was open is aborted."""

import logging
from collections.abc import Mapping

from quiver.model.errors import QuiverError
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.decision_applier import DecisionApplier
from quiver.transactions.events import Decided, Participant, ProducerOutcome
from quiver.transactions.owners.asking import AskedOwners

logger = logging.getLogger(__name__)

_NO_DECISION = 0
"""Stands for no decision: the outcome is known, or there is no producer left that could ask for it."""
_Found = dict[tuple[int, int], list[Participant]]
"""Where each transaction is open, by producer and epoch."""


async def finish_decided(coordinator: Coordinator, applier: DecisionApplier) -> None:
    """Returns when what was decided has taken effect in this process. What could not be written, and other workers,
    follow in the background."""
    for decided in list(coordinator.state.unfinished.values()):
        await applier.apply(decided, at_start=True)


async def end_open(coordinator: Coordinator, applier: DecisionApplier, owners: AskedOwners) -> None:
    """Aborts what was open, as soon as all workers have said what that is. What could not be written is tried again
    in the background."""
    opened = await owners.opened(coordinator.term)
    left_over: _Found = {}
    committed: _Found = {}
    underway = {
        (outcome.producer_id, outcome.epoch, participant)
        for decided in coordinator.state.unfinished.values()
        for outcome in decided.outcomes
        for participant in outcome.participants
    }
    for producer_id, epoch, participant in [*applier.units.open_in_logs(), *opened]:
        key = producer_id, epoch
        if (*key, participant) not in underway:
            ended = committed if coordinator.state.was_committed(*key) else left_over
            ended.setdefault(key, []).append(participant)
    await _abort(coordinator, applier, left_over)
    await _mark(coordinator, applier, committed, commit=True)
    await _mark(coordinator, applier, left_over, commit=False)


async def _abort(coordinator: Coordinator, applier: DecisionApplier, left_over: _Found) -> None:
    """Removes those that are aborted by a decision, now or later: their producers may still exist."""
    try:
        decided = await coordinator.abort_left_over(left_over)
    except (QuiverError, OSError) as error:
        logger.warning("transactions that were open when the broker stopped are aborted later: %s", error)
        for producer_id, transaction in coordinator.open.items():
            left_over.pop((producer_id, transaction.epoch), None)
        return
    if decided is not None:
        logger.info("%d transactions were open when the broker stopped and are aborted", len(decided.outcomes))
        await applier.apply(decided)
        for outcome in decided.outcomes:
            left_over.pop((outcome.producer_id, outcome.epoch), None)


async def _mark(
    coordinator: Coordinator,
    applier: DecisionApplier,
    found: Mapping[tuple[int, int], list[Participant]],
    *,
    commit: bool,
) -> None:
    """Transactions of epochs that have ended."""
    if found:
        outcomes = [ProducerOutcome(*key, *key, participants) for key, participants in found.items()]
        await applier.apply(Decided(_NO_DECISION, commit, "restart", coordinator.now_ms(), outcomes))
