"""Administration of transactions: `q.transactions`."""

from collections.abc import Iterable

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.client._async.transaction.transactional import ask, producer_keys
from quiver.client.admin.transaction_list import TransactionList
from quiver.model.errors import InvalidRequest, ProducerFenced
from quiver.protocol import transaction_messages as messages
from quiver.protocol.messages import ProducerIdentity
from quiver.protocol.transaction_messages import ProducerKey, TransactionInfo, TransactionStats


class AsyncTransactions:
    def __init__(self, broker: AsyncReconnectingConnection) -> None:
        self._broker = broker

    async def list(self, *, limit: int = 1000, skip: int = 0) -> TransactionList:
        """Open transactions, and those without markers in every partition yet; `total` is how many there are."""
        answer = (await self._broker.call(messages.ListTransactions(limit, skip))).answer
        if not isinstance(answer, messages.TransactionList):
            raise unexpected(answer)
        return TransactionList(answer.transactions, answer.total)

    async def describe(self, producer: str | int) -> TransactionInfo:
        """The transaction of a transactional id or producer id that is open, or ended last. Raises
        TransactionNotFound."""
        named, number = (producer, -1) if isinstance(producer, str) else (None, producer)
        answer = (await self._broker.call(messages.DescribeTransaction(named, number))).answer
        if not isinstance(answer, messages.Transaction):
            raise unexpected(answer)
        return answer.info

    async def abort(self, producer: str | int, epoch: int | None = None) -> TransactionInfo:
        """Aborts the open transaction of a transactional id or producer id; its producer gets TransactionAborted.

        Returns the transaction. Raises InvalidRequest if none is open, or not the one of `epoch`.
        """
        found = await self.describe(producer)
        if found.state != "open" or epoch not in (None, found.epoch):
            problem = f"the transaction of {producer!r} is {found.transaction_id}, {found.state}"
            raise InvalidRequest(problem=f"{problem}: only an open transaction can be aborted")
        await ask(self._broker, messages.AbortTransaction([ProducerKey(found.producer_id, found.epoch)]))
        return found

    async def init(self, transactional_id: str) -> ProducerKey:
        """Takes over a transactional id: aborts what it has open, and fences its producer.

        Returns the producer id and epoch of its next transaction, which is empty.
        """
        answer = await ask(self._broker, messages.InitTransactions(transactional_id))
        if not isinstance(answer, ProducerIdentity):
            raise unexpected(answer)
        return ProducerKey(answer.producer_id, answer.epoch)

    async def stats(self) -> TransactionStats:
        """How many are open, were committed and aborted, and how long they took."""
        answer = (await self._broker.call(messages.GetTransactionStats())).answer
        if not isinstance(answer, TransactionStats):
            raise unexpected(answer)
        return answer

    # of several producers, see AsyncClient

    async def commit(
        self, keys: Iterable[ProducerKey | tuple[int, int]], *, key: str | None, description: str | None = None
    ) -> bool:
        request = messages.CommitTransaction(producer_keys(keys), key, description=description)
        answer = await ask(self._broker, request)
        if not isinstance(answer, messages.TransactionEnded):
            raise unexpected(answer)
        return not answer.repeated

    async def abort_all(self, keys: Iterable[ProducerKey | tuple[int, int]]) -> None:
        producers = producer_keys(keys)
        try:
            await ask(self._broker, messages.AbortTransaction(producers))
        except ProducerFenced as error:
            if len(producers) == 1:
                raise
            first_error = error
        else:
            return
        fenced: ProducerFenced | None = None
        for each in producers:
            try:
                await ask(self._broker, messages.AbortTransaction([each]))
            except ProducerFenced as error:
                fenced = fenced or error
        if fenced is not None:
            raise fenced from first_error
