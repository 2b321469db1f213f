"""A transaction whose first message the broker does not have, because it was killed before it was stored."""

import pytest

import quiver
from quiver.model.errors import OutOfSequence, TransactionAborted
from quiver.protocol.messages import Failure, Produce, Request
from unit.client.fake_native_broker import FakeBroker, Fault


def test_it_is_aborted() -> None:
    lost = OutOfSequence(producer_id=101, sequence=1, expected=0)

    def refuse(request: Request) -> Fault:
        return Failure(lost.code, lost.message, lost.retryable) if isinstance(request, Produce) else None

    with FakeBroker(orders=1) as broker, quiver.connect(broker.address) as q, q.transaction() as tx:
        tx.publish("orders", b"first")
        tx.flush()
        broker.fault = refuse
        tx.publish("orders", b"second")
        with pytest.raises(TransactionAborted, match="lacks some of its messages"):
            tx.commit()
