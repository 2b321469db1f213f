"""Transactions that are open for too long are aborted, each by itself: one that has to wait holds up no other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from quiver.model.errors import QuiverError
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.open_transaction import OpenTransaction

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class TransactionTimeouts:
    """`abort` is called by one who is alone with the producer of an overdue transaction."""

    def __init__(self, coordinator: Coordinator, abort: Callable[[OpenTransaction], Awaitable[object]]) -> None:
        self._coordinator = coordinator
        self._abort = abort
        self.tasks: dict[OpenTransaction, asyncio.Task[None]] = {}

    def begin(self) -> None:
        """Begins to abort what is overdue by now."""
        for transaction in self._coordinator.overdue():
            if transaction not in self.tasks:
                self.tasks[transaction] = asyncio.get_running_loop().create_task(self._time_out(transaction))

    async def finish(self) -> None:
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def _time_out(self, transaction: OpenTransaction) -> None:
        try:
            async with self._coordinator.alone(transaction.producer_id):
                if transaction in self._coordinator.overdue():
                    logger.info("transaction %s was open for too long and is aborted", transaction.id)
                    await self._abort(transaction)
        except Exception as error:
            unexpected = not isinstance(error, QuiverError | OSError)
            logger.warning("transaction %s could not be aborted: %s", transaction.id, error, exc_info=unexpected)
            await asyncio.sleep(_RETRY_SECONDS)
        finally:
            del self.tasks[transaction]
