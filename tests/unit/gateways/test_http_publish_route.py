import asyncio
import gzip
import json
import logging
import re
from unittest.mock import Mock

import httpx
import msgspec
import pytest

from quiver.gateways.http.request import Request
from quiver.gateways.http.routes.messages.publish import PublishRequest
from quiver.gateways.http.wire.exchange import Exchange, RequestHead
from quiver.model.errors import DiskFull, Overloaded, ShuttingDown
from quiver.system.memory_budget import MemoryBudget
from unit.gateways.fake_broker import FakeBroker

PATH = "/topics/orders/messages"


async def publish(client: httpx.AsyncClient, *messages, path=PATH) -> httpx.Response:
    return await client.post(path, json={"messages": list(messages)})


async def test_results_come_in_the_order_of_the_request(client):
    response = await publish(client, {"value": "a"}, {"value": "b", "partition": 1}, {"value": "c"})
    assert response.status_code == 200
    assert response.json() == {
        "results": [{"partition": 0, "offset": 0}, {"partition": 1, "offset": 0}, {"partition": 0, "offset": 1}]
    }


async def test_one_bad_message_does_not_spoil_the_others(client, broker: FakeBroker):
    response = await publish(
        client, {"value": "a"}, {}, {"value": "b", "partition": 9}, {"value": "c", "delay": "soon"}, {"value": "d"}
    )
    results = response.json()["results"]
    assert response.status_code == 200
    assert [result.get("code") for result in results] == [
        None,
        "invalid_request",
        "partition_not_found",
        "invalid_request",
        None,
    ]
    assert results[1]["partition"] is results[1]["offset"] is None
    assert results[3]["status"] == 400
    assert [message.value for message in broker.published] == [b"a", b"d"]


async def test_a_delayed_message_is_answered_with_its_time_and_its_id(client):
    response = await publish(client, {"value": "a"}, {"value": "b", "deliverAt": "2030-01-01T00:00:00Z"})
    assert response.json()["results"] == [
        {"partition": 0, "offset": 0},
        {
            "partition": 0,
            "offset": 1,
            "delayed": True,
            "deliver_at": "2030-01-01T00:00:00.000Z",
            "deliverAt": "2030-01-01T00:00:00.000Z",
        },
    ]


async def test_the_priority_is_answered_when_it_is_not_normal(client):
    response = await publish(client, {"value": "a", "priority": 0}, {"value": "a"})
    assert [result.get("priority") for result in response.json()["results"]] == ["critical", None]


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_the_version_prefix_is_the_same_route(client, prefix):
    assert (await publish(client, {"value": "a"}, path=prefix + PATH)).status_code == 200


async def test_messagepack_goes_in_and_comes_out(client, broker: FakeBroker):
    body = msgspec.msgpack.encode({"messages": [{"value": b"\x00\xff", "key": "k"}]})
    response = await client.post(PATH, content=body, headers={"content-type": "application/msgpack"})
    assert response.headers["content-type"] == "application/msgpack"
    assert msgspec.msgpack.decode(response.content) == {"results": [{"partition": 0, "offset": 0}]}
    assert broker.published[0].value == b"\x00\xff"


async def test_a_compressed_body_is_opened(client, broker: FakeBroker):
    body = gzip.compress(b'{"messages": [{"value": "a"}]}')
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert (await client.post(PATH, content=body, headers=headers)).status_code == 200
    assert broker.published[0].value == b"a"


async def test_a_large_body_is_read_in_slices_with_the_same_outcome(client, broker: FakeBroker):
    messages = [{"value": f"{n:0100}"} for n in range(3000)]
    messages[1234] = {"value_base64": "!"}
    response = await publish(client, *messages)
    results = response.json()["results"]
    assert len(response.request.content) > 256 * 1024
    assert [n for n, result in enumerate(results) if "error" in result] == [1234]
    assert [int(message.value) for message in broker.published] == [n for n in range(3000) if n != 1234]
    assert results[2999]["offset"] == 2998


async def test_a_wrong_type_in_a_large_body_publishes_nothing(client, broker: FakeBroker):
    messages = [{"value": f"{n:0100}"} for n in range(3000)] + [{"value": "x", "partition": "first"}]
    response = await publish(client, *messages)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert broker.published == []


async def test_more_messages_than_one_request_may_have_are_413(client, broker: FakeBroker):
    body = b'{"messages": [' + b",".join([b"{} "] * 100_001) + b"]}"
    response = await client.post(PATH, content=body, headers={"content-type": "application/json"})
    assert (response.status_code, "100001 messages" in response.json()["error"]) == (413, True)


async def test_an_empty_list_needs_the_topic_all_the_same(client):
    assert (await publish(client)).json() == {"results": []}
    assert (await publish(client, path="/topics/nothing/messages")).status_code == 404


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", 'needs "messages"'),
        (b"{}", 'needs "messages"'),
        (b'{"messages": null}', 'needs "messages"'),
        (b'{"messages": {}}', r"Expected `array \| null`, got `object` - at `\$.messages`"),
        (b'{"messages": [1]}', r"Expected `object`, got `int` - at `\$.messages\[0\]`"),
        (b'{"messages": [{"value": "x", "headers": ["a"]}]}', r"\$.messages\[0\].headers"),
        (b'{"messages": [{"value": ]}', "is not JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (b"\x00", "is not JSON"),
        (b'{"messages": [{"value": ' + b"[" * 50_000, "nested too deeply|is not JSON"),
    ],
)
async def test_a_bad_body_is_400_and_says_where(client, body, said):
    response = await client.post(PATH, content=body, headers={"content-type": "application/json"})
    error = response.json()
    assert (response.status_code, error["status"], error["code"]) == (400, 400, "invalid_request")
    assert error["retryable"] is False
    assert re.search(said, error["error"]), error["error"]


async def test_an_error_that_may_pass_and_hits_all_messages_is_the_status(client, broker: FakeBroker):
    broker.refuse = DiskFull(problem="no room")
    response = await publish(client, {"value": "a"}, {"value": "b"})
    error = response.json()
    assert (response.status_code, error["code"], error["retryable"]) == (507, "disk_full", True)
    assert [result["code"] for result in error["results"]] == ["disk_full", "disk_full"]
    assert response.headers["retry-after"] == "1"


async def test_an_error_that_hits_some_messages_is_200(client, broker: FakeBroker):
    broker.refuse = DiskFull(problem="no room")
    response = await publish(client, {"value": "a"}, {})
    assert response.status_code == 200
    assert [result["code"] for result in response.json()["results"]] == ["disk_full", "invalid_request"]


async def test_a_broker_that_stops_is_503(client, broker: FakeBroker):
    broker.broken = ShuttingDown()
    response = await publish(client, {"value": "a"})
    assert (response.status_code, response.json()["code"]) == (503, "shutting_down")


async def test_a_fault_of_ours_is_500_without_details_and_logged_with_them(client, broker: FakeBroker, caplog):
    broker.broken = ZeroDivisionError("secret")
    response = await publish(client, {"value": "a"})
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert "secret" not in response.text
    assert any(record.exc_info and "secret" in str(record.exc_info[1]) for record in caplog.records)


async def test_one_message_in_a_topic_that_is_not_there_yet_is_left_to_the_broker(client, broker):
    """`begin_publish` creates no topics: `publish` may do so."""
    response = await client.post("/topics/nothing/messages", json={"messages": [{"value": "a"}]})
    assert (response.status_code, response.json()["code"]) == (404, "topic_not_found")


async def test_one_message_alone_and_among_others_gets_the_same_result(client, broker):
    message = {"value": "a", "priority": "high", "delay": "5s", "headers": {"h": "x"}}
    alone = (await client.post(PATH, json={"messages": [message]})).json()["results"]
    [first, _] = (await client.post(PATH, json={"messages": [message, message]})).json()["results"]
    assert [alone[0] | {"offset": 0}] == [first | {"offset": 0}]
    assert broker.published[0] == broker.published[1]


async def test_one_message_waits_for_memory_like_any_other(broker):
    """There is no room at once: the body is given to the handler that waits."""
    exchange = Exchange(RequestHead("POST", PATH, b"", {}), Mock())
    exchange.arrived(b'{"messages": []}')
    exchange.ended()
    budget = MemoryBudget(100_000, request_bytes=100_000)
    others = [budget.open(), budget.open()]
    for other, size in zip(others, (90_000, 12_500), strict=True):
        other.take(size)
    request = Request(exchange, 1_000_000, budget)
    assert request.body_at_once(PublishRequest) is None
    reading = asyncio.ensure_future(request.content())
    await asyncio.sleep(0)
    assert not reading.done()
    for other in others:
        other.close()
    assert await reading == b'{"messages": []}'


async def test_a_body_over_the_limit_is_413(client):
    async def body():
        for _ in range(1000):
            yield b" " * 1024

    headers = {"content-type": "application/json", "content-length": str(1000 * 1024)}
    response = await client.post(PATH, content=body(), headers=headers)
    assert (response.status_code, response.json()["code"]) == (413, "request_too_large")


async def test_a_body_without_a_length_is_413_when_it_passes_the_limit(client):
    async def body():
        for _ in range(1000):
            yield b" " * 1024

    response = await client.post(PATH, content=body(), headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["code"]) == (413, "request_too_large")


async def test_a_compressed_body_is_413_when_it_opens_beyond_the_limit(client):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    response = await client.post(PATH, content=gzip.compress(bytes(10_000_000)), headers=headers)
    assert response.status_code == 413


async def test_what_curl_sends_by_default_is_read_as_json(client, broker: FakeBroker):
    form = {"content-type": "application/x-www-form-urlencoded"}
    response = await client.post(PATH, content=b'{"messages": [{"value": "a"}]}', headers=form)
    assert response.status_code == 200
    assert len(broker.published) == 1
    response = await client.post(PATH, data={"messages": "x"})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


async def test_pages_of_other_sites_cannot_publish_through_a_visitors_browser(client, broker: FakeBroker):
    body = {"messages": [{"value": "a"}]}
    assert (await client.post(PATH, json=body, headers={"sec-fetch-site": "cross-site"})).status_code == 403
    assert (await client.post(PATH, json=body, headers={"sec-fetch-site": "same-origin"})).status_code == 200
    assert len(broker.published) == 1


async def test_memory_for_bodies_is_given_back(client, broker: FakeBroker):
    for _ in range(20):
        assert (await publish(client, {"value": "x" * 200_000})).status_code == 200
        response = await client.post(PATH, content=b"{" * 200_000, headers={"content-type": "application/json"})
        assert response.json()["code"] == "invalid_request"


async def test_a_request_is_logged_with_method_path_status_and_time(client, caplog):
    caplog.set_level(logging.DEBUG, "quiver.http")
    await publish(client, {"value": "a"})
    await client.get("/topics/nothing")
    lines = [record.getMessage() for record in caplog.records if record.name == "quiver.http"]
    assert lines[0].startswith("POST /topics/orders/messages 200 ")
    assert lines[1].startswith("GET /topics/nothing 404 ")
    assert lines[0].endswith(" ms")


async def test_overload_of_the_broker_says_when_to_come_back(client, broker: FakeBroker):
    broker.refuse = Overloaded(problem="too much")
    response = await publish(client, {"value": "a"})
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert json.loads(response.content)["retryable"] is True
