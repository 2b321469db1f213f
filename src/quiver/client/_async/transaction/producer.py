"""The messages of transactions to one topic."""

from quiver.client._async.produce.producer import AsyncProducer
from quiver.model.errors import Closed, QuiverError


class AsyncTransactionProducer(AsyncProducer):
    """A producer that is used by one transaction after the other.

    Between two of them nothing is on its way: the first has ended with `flush` or `give_up`.
    """

    def begin(self, identity: tuple[int, int]) -> None:
        """What comes now belongs to the transaction of this producer id and epoch."""
        self._sender.begin_transaction(identity)

    async def push(self) -> None:
        """Sends everything that was taken, without waiting for answers."""
        self._flushing += 1
        try:
            await self._sender.pump()
        finally:
            self._flushing -= 1

    async def give_up(self, error: QuiverError) -> None:
        """Nothing that was taken counts any more: what was not sent is not, nobody waits for the rest."""
        with self._mutex:
            for chunk in list(self._open):
                self._seal(chunk)
        await self._sender.give_up(error)

    async def end(self) -> None:
        """Closes it, between two transactions."""
        await self.give_up(Closed(what="the client"))
        self._sender.begin_transaction((-1, -1))
        await self.close()
