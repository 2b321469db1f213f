"""Aborts of open transactions: on request, when another instance takes over, and when one is open for too long."""

import asyncio
import logging
from collections.abc import Sequence

from quiver.model.errors import QuiverError
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.decision_applier import DecisionApplier
from quiver.transactions.events import Decided, Reason
from quiver.transactions.open_transaction import OpenTransaction

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class TransactionAborts:
    def __init__(self, coordinator: Coordinator, applier: DecisionApplier) -> None:
        self._coordinator = coordinator
        self._applier = applier
        self.timeouts: dict[OpenTransaction, asyncio.Task[None]] = {}
        """One task per overdue transaction, so that none has to wait for another."""

    async def abort(self, transactions: Sequence[OpenTransaction], reason: Reason) -> Decided:
        """Decides and applies the abort. The caller is `alone` with the producers, and has marked these as ending."""
        try:
            for each in transactions:
                await each.frames.idle()
            decided = await self._coordinator.decide(transactions, reason=reason)
        except BaseException:
            for each in transactions:
                each.is_ending = False
            raise
        await self._applier.apply(decided)
        return decided

    def begin_overdue(self) -> None:
        """Starts to abort what is overdue now."""
        for transaction in self._coordinator.overdue():
            if transaction not in self.timeouts:
                task = asyncio.get_running_loop().create_task(self._time_out(transaction))
                self.timeouts[transaction] = task

    async def finish(self) -> None:
        """Returns when no abort of an overdue transaction is running."""
        await asyncio.gather(*self.timeouts.values(), return_exceptions=True)

    async def _time_out(self, transaction: OpenTransaction) -> None:
        try:
            async with self._coordinator.alone(transaction.producer_id):
                if transaction in self._coordinator.overdue():
                    logger.info("transaction %s was open for too long and is aborted", transaction.id)
                    transaction.is_ending = True
                    await self.abort([transaction], "restart" if transaction.is_left_over else "timeout")
        except Exception as error:
            unexpected = not isinstance(error, QuiverError | OSError)
            logger.warning("transaction %s could not be aborted: %s", transaction.id, error, exc_info=unexpected)
            await asyncio.sleep(_RETRY_SECONDS)  # it is still overdue, and tried again after this
        finally:
            del self.timeouts[transaction]
