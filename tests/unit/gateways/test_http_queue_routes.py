"""Receiving and settling over HTTP, without a broker: what is asked of the queues, and how responses look."""

import asyncio
from unittest.mock import AsyncMock, Mock

import msgspec
import pytest

from quiver.gateways.http.operation import Operation
from quiver.gateways.http.request import Request
from quiver.gateways.http.routes.queues.receive import receive_routes
from quiver.gateways.http.wire.exchange import ClientGone, Exchange, RequestHead
from quiver.model.errors import WorkerUnavailable
from quiver.model.position import Position
from quiver.model.priority import Priority
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT
from quiver.streams.owners.port import PolledPartition
from quiver.system.memory_budget import DEFAULT_BYTES, MemoryBudget
from unit.gateways.fake_queues import FakeQueues, received


@pytest.fixture
def queues(broker):
    broker.queues = FakeQueues()
    return broker.queues


async def test_a_received_message_has_all_its_fields(client, broker, queues):
    queues.waiting = [
        received(
            broker.topic("orders"),
            41,
            [b'{"id": 1}', b"\xff"],
            keys=[b"k", None],
            headers=[{"h": b"x"}, None],
            priority=1,
            attempt=2,
            last_error="it broke",
        )
    ]
    response = await client.post("/topics/orders/receive", json={"group": "g"})
    assert response.status_code == 200
    assert response.json() == {
        "messages": [
            {
                "topic": "orders",
                "partition": 0,
                "offset": 41,
                "timestamp": "2027-01-15T08:00:00.000Z",
                "appended_at": "2027-01-15T08:00:00.000Z",
                "priority": "high",
                "key": "k",
                "value": '{"id": 1}',
                "headers": {"h": "x"},
                "receipt_handle": "orders:0:41:2:7-100000005",
                "attempt": 2,
                "first_delivered": "2027-01-15T08:00:00.000Z",
                "deadline": "2027-01-15T08:00:30.000Z",
                "last_error": "it broke",
            },
            {
                "topic": "orders",
                "partition": 0,
                "offset": 42,
                "timestamp": "2027-01-15T08:00:00.000Z",
                "appended_at": "2027-01-15T08:00:00.000Z",
                "priority": "high",
                "value_base64": "/w==",
                "receipt_handle": "orders:0:42:2:7-100000005",
                "attempt": 2,
                "first_delivered": "2027-01-15T08:00:00.000Z",
                "deadline": "2027-01-15T08:00:30.000Z",
                "last_error": "it broke",
            },
        ]
    }


async def test_what_is_asked_of_the_queues(client, broker, queues):
    assert (await client.post("/topics/orders/receive", json={"group": "g"})).json() == {"messages": []}
    address, _, port = queues.asked.consumer.partition(":")
    assert (address, port.isdigit()) == ("127.0.0.1", True)
    expected = ReceiveRequest([broker.topic("orders").id], "g", queues.asked.consumer, max_messages=10)
    assert queues.asked == expected
    body = {"group": "g", "consumer": "me", "max_messages": 99_999, "visibility": "2m", "ordering": "key"}
    queues.responses.set()
    await client.post("/topics/orders/receive", json=body | {"wait": "1h", "priority": "low", "start": "latest"})
    assert queues.asked == ReceiveRequest(
        [broker.topic("orders").id],
        "g",
        "me",
        max_messages=10_000,
        wait_ms=300_000,
        visibility_ms=120_000,
        ordering="key",
        priority=Priority.LOW,
        start=Position("latest"),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"group": None},
        {"group": "a/b"},
        {"group": 5},
        {"max_messages": 0},
        {"max_messages": "many"},
        {"wait": "soon"},
        {"wait": -1},
        {"visibility": 0},
        {"visibility": "8d"},
        {"visibility": "x"},
        {"ordering": "sometimes"},
        {"priority": "urgent"},
        {"priority": 5},
        {"start": "sometime"},
        {"consumer": "x" * 241},
    ],
)
async def test_receives_that_make_no_sense_ask_for_nothing(client, queues, fields):
    response = await client.post("/topics/orders/receive", json={"group": "g", **fields})
    assert (response.status_code, response.json()["status"]) == (400, 400)
    assert queues.asked is None


@pytest.mark.parametrize("accept", ["application/json", "application/msgpack"])
@pytest.mark.parametrize(("count", "size"), [(1200, 1), (3, 200_000), (500, 10)])
async def test_large_responses_are_whole_and_in_order(client, broker, queues, accept, count, size):
    values = [b"%06d" % number + b"x" * size for number in range(count)]
    queues.waiting = [
        received(broker.topic("orders"), start, values[start : start + 300]) for start in range(0, count, 300)
    ]
    response = await client.post("/topics/orders/receive", json={"group": "g"}, headers={"accept": accept})
    decode = msgspec.json.decode if accept == "application/json" else msgspec.msgpack.decode
    messages = decode(response.content)["messages"]
    assert [message["value"].encode() for message in messages] == values
    assert [message["offset"] for message in messages] == list(range(count))
    assert messages[-1]["receipt_handle"] == f"orders:0:{count - 1}:1:7-100000005"


def exchange_of(body: dict, headers: dict | None = None) -> Exchange:
    """A request that has arrived; `lost` says that its client has gone away."""
    exchange = Exchange(RequestHead("POST", "/topics/orders/receive", b"", headers or {}), Mock(peer="somebody"))
    exchange.arrived(msgspec.json.encode(body))
    exchange.ended()
    return exchange


def request_of(exchange: Exchange, budget: MemoryBudget) -> Request:
    request = Request(exchange, 1_000_000, budget)
    request.params = {"topic": "orders"}
    return request


@pytest.fixture
def operation(broker, queues) -> Operation:
    return receive_routes(broker)["/topics/{topic}/receive"]["POST"]


async def test_a_client_that_goes_away_while_it_waits_takes_nothing(queues, operation):
    exchange = exchange_of({"group": "g", "wait": "30s"})
    handled = asyncio.ensure_future(operation.handler(request_of(exchange, MemoryBudget(1_000_000))))
    await queues.arrived.wait()
    exchange.lost()
    with pytest.raises(ClientGone):
        await handled
    assert queues.returned == []


async def test_a_stop_while_the_client_goes_away_still_cancels(queues, operation):
    exchange = exchange_of({"group": "g", "wait": "30s"})
    handled = asyncio.ensure_future(operation.handler(request_of(exchange, MemoryBudget(1_000_000))))
    await queues.arrived.wait()
    exchange.lost()
    handled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handled


async def test_nothing_is_leased_for_a_client_that_has_gone(broker, queues):
    queues.waiting = [received(broker.topic("orders"), 5, [b"a", b"b"])]
    exchange = exchange_of({"group": "g"})
    request = request_of(exchange, MemoryBudget(1_000_000))
    await request.content()
    exchange.lost()
    with pytest.raises(ClientGone):
        await request.while_connected(broker.queues.receive(ReceiveRequest([1], "g", "me")))
    assert queues.asked is None


async def test_what_was_polled_is_given_back_when_its_member_cannot_be_asked_for(client, broker, queues):
    polled = poll_of(broker, told=AsyncMock(side_effect=WorkerUnavailable(worker=1, problem="is gone")))
    response = await client.get("/groups/g/poll", params={"member_id": "m"})
    assert (response.status_code, response.json()["code"]) == (503, "worker_unavailable")
    assert queues.returned == polled


async def test_what_was_polled_is_given_back_when_the_client_goes_away_before_the_response(
    application, broker, queues
):
    exchange = Exchange(RequestHead("GET", "/groups/g/poll", b"member_id=m", {}), Mock(peer="somebody"))
    exchange.ended()
    polled = poll_of(broker, told=AsyncMock(side_effect=lambda *_: exchange.lost()))
    await application.begin(exchange)
    assert queues.returned == polled


def poll_of(broker, told: AsyncMock) -> list:
    """A poll that finds one message, and whose member is asked for like that; returns what it has leased."""
    topic = broker.topic("orders")
    polled = [PolledPartition(topic, 0, [received(topic, 41, [b"x"])], 42)]
    broker.poll, broker.poll_members = Mock(poll=AsyncMock(return_value=polled)), Mock(told=told)
    return polled[0].received


async def test_what_was_received_is_given_back_when_the_client_goes_away_before_the_response(
    application, broker, queues
):
    queues.waiting = [received(broker.topic("orders"), 0, [b"x" * 100_000])]
    exchange = exchange_of({"group": "g"}, {b"accept-encoding": b"gzip"})
    handled = asyncio.ensure_future(application.begin(exchange))
    await queues.arrived.wait()
    assert not handled.done(), "it waits for the thread that compresses"
    exchange.lost()
    await handled
    assert [one.run.start for one in queues.returned] == [0]


@pytest.mark.parametrize("count", [1, 300])
async def test_what_has_left_is_not_given_back(client, broker, queues, count):
    queues.waiting = [received(broker.topic("orders"), 0, [b"x" * 1000] * count)]
    response = await client.post("/topics/orders/receive", json={"group": "g"})
    assert len(response.json()["messages"]) == count
    assert queues.returned == []


async def test_a_response_without_a_body_gives_back_what_it_would_have(client, broker, queues):
    polled = poll_of(broker, told=AsyncMock(return_value=None))
    response = await client.head("/groups/g/poll", params={"member_id": "m"})
    assert (response.status_code, response.content) == (200, b"")
    assert queues.returned == polled


async def test_a_response_there_is_no_memory_for_is_given_back(client, broker, queues, budget):
    queues.waiting = [received(broker.topic("orders"), 0, [b"x" * 300_000])]
    other, beyond = budget.open(), budget.open()
    other.take(DEFAULT_BYTES * 7 // 8)
    beyond.take(300_000)
    response = await client.post("/topics/orders/receive", json={"group": "g"})
    assert (response.status_code, response.json()["code"]) == (503, "overloaded")
    assert [one.run.start for one in queues.returned] == [0]


RECEIPT = "orders:1:42:3:7-100000005"
DONE = {"success": True, "topic": "orders", "partition": 1, "offset": 42, "delivery_count": 3, "committed_offset": 43}
NOTHING = {"next_visible_at": None, "dlq_topic": None, "new_deadline": None, "offset_advanced": False}
LATER = "2027-01-15T08:00:01.000Z"


@pytest.mark.parametrize(
    ("verb", "fields", "action", "options", "expected"),
    [
        ("ack", {}, ACK, {}, {"action": "acked", "offset_advanced": True}),
        (
            "nack",
            {"reason": "later", "delay": "5s"},
            NACK,
            {"delay_ms": 5000, "is_counted": True, "reason": "later"},
            {"action": "requeued", "next_visible_at": LATER},
        ),
        (
            "nack",
            {"counted": False},
            NACK,
            {"delay_ms": None, "is_counted": False, "reason": ""},
            {"action": "requeued", "next_visible_at": LATER},
        ),
        ("reject", {"reason": "bad"}, REJECT, {"reason": "bad"}, {"action": "rejected", "dlq_topic": "orders.dlq"}),
        ("visibility", {}, EXTEND, {"delay_ms": None}, {"action": "extended", "new_deadline": LATER}),
        (
            "visibility",
            {"timeout": "1m"},
            EXTEND,
            {"delay_ms": 60_000},
            {"action": "extended", "new_deadline": LATER},
        ),
        (
            "visibility",
            {"extension_seconds": 60, "timeout": "1m"},
            EXTEND,
            {"delay_ms": 60_000},
            {"action": "extended", "new_deadline": LATER},
        ),
    ],
)
async def test_one_receipt_responses_the_outcome_itself(client, queues, verb, fields, action, options, expected):
    response = await client.post(f"/messages/{verb}", json={"receipt_handle": RECEIPT, **fields})
    assert (response.status_code, response.json()) == (200, DONE | NOTHING | expected)
    [(asked, [receipt], given)] = queues.settled
    assert (asked, str(receipt), given) == (action, RECEIPT, options)


async def test_a_nack_out_of_attempts_says_where_the_message_goes(client, queues):
    queues.dies = True
    response = (await client.post("/messages/nack", json={"receipt_handle": RECEIPT})).json()
    assert (response["action"], response["dlq_topic"], response["next_visible_at"]) == ("dlq", "orders.dlq", None)


async def test_many_receipts_response_in_their_order(client, queues):
    queues.lost = {43}
    receipts = [RECEIPT, "nonsense", "orders:1:43:1:7-100000005", ""]
    response = await client.post("/messages/ack", json={"receipts": receipts})
    assert response.status_code == 200
    results = response.json()["results"]
    assert response.json().keys() == {"results"}
    assert [result["receipt_handle"] for result in results] == receipts
    assert results[0] == DONE | NOTHING | {"action": "acked", "offset_advanced": True, "receipt_handle": RECEIPT}
    assert [result.get("code") for result in results[1:]] == ["invalid_receipt", "lease_lost", "invalid_receipt"]
    assert [result.get("status") for result in results[1:]] == [400, 410, 400]
    assert not any(result["success"] for result in results[1:])
    assert all(result["error"] for result in results[1:])
    assert (await client.post("/messages/ack", json={"receipts": []})).json() == {"results": []}


async def test_an_error_of_one_receipt_has_its_own_status(client, queues):
    queues.lost = {42}
    response = await client.post("/messages/ack", json={"receipt_handle": RECEIPT})
    assert (response.status_code, response.json()["code"]) == (410, "lease_lost")


@pytest.mark.parametrize("verb", ["ack", "nack", "reject", "visibility"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"receipt_handle": None, "receipts": None}, 400),
        ({"receipt_handle": RECEIPT, "receipts": [RECEIPT]}, 400),
        ({"receipt_handle": 5}, 400),
        ({"receipt_handle": "orders:1:42"}, 400),
        ({"receipt_handle": RECEIPT + "\n"}, 400),
        ({"receipts": "x"}, 400),
        ({"receipts": [5]}, 400),
        ({"receipts": [RECEIPT] * 10_001}, 413),
    ],
)
async def test_bodies_that_make_no_sense_settle_nothing(client, queues, verb, body, status):
    response = await client.post(f"/messages/{verb}", json=body)
    assert (response.status_code, response.json()["status"]) == (status, status)
    assert queues.settled == []


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("nack", {"delay": "soon"}),
        ("nack", {"delay": "4000d"}),
        ("nack", {"delay": -1}),
        ("visibility", {"timeout": "x"}),
        ("visibility", {"timeout": "4000d"}),
        ("visibility", {"timeout": "1s", "extension_seconds": 2}),
    ],
)
async def test_times_that_make_no_sense(client, queues, verb, fields):
    response = await client.post(f"/messages/{verb}", json={"receipt_handle": RECEIPT, **fields})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert queues.settled == []
