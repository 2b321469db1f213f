"""The response to a push of one message, which is put together from parts that do not change."""

import msgspec
import pytest

from quiver.gateways.http.media import JSON
from quiver.gateways.queen.incoming import PushItem
from quiver.gateways.queen.messages import TRANSACTION_HEADER
from quiver.gateways.queen.routes.push import Outcome, single_response, to_result
from quiver.messages.publish import Published
from quiver.model.message import NewMessage
from quiver.model.names import TopicId
from quiver.model.topic import Topic, TopicConfig

TOPIC = Topic(id=TopicId(7), name="orders", config=TopicConfig(), created_at_ms=0)


@pytest.mark.parametrize("partition", [None, "customer 7", 'ä"\\ü'])
@pytest.mark.parametrize("place", [Published(0, 0), Published(70_000, 1 << 50), Published(2, 5, duplicate=True)])
@pytest.mark.parametrize("transaction", [None, "t-1"])
def test_it_is_what_several_would_get(partition: str | None, place: Published, transaction: str | None) -> None:
    item = PushItem(queue="orders", partition=partition, transaction_id=transaction)
    headers = None if transaction is None else {TRANSACTION_HEADER: transaction.encode()}
    outcome = Outcome(TOPIC, NewMessage(value=b"1", key=item.key, headers=headers), place)
    response = single_response(item, outcome, JSON)
    assert response.status == 201
    assert msgspec.json.decode(JSON.encode(response.body)) == [msgspec.to_builtins(to_result(0, item, outcome))]
