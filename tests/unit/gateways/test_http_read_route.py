import gzip

import httpx
import msgspec
import pytest
import zstandard

from quiver.model.message import NewMessage
from unit.gateways.fake_broker import FakeBroker

PATH = "/topics/orders/partitions/0/messages"


async def fill(broker: FakeBroker, count: int, size: int = 10) -> None:
    await broker.publish("orders", [NewMessage(value=f"{n}".rjust(size).encode()) for n in range(count)])


def numbers(page) -> list[int]:
    return [int(message["value"]) for message in page["messages"]]


async def test_a_page_has_messages_and_where_to_go_on(client, broker):
    await fill(broker, 5)
    page = (await client.get(PATH, params={"offset": 1, "limit": 3})).json()
    assert numbers(page) == [1, 2, 3]
    assert page["next_offset"] == 4


async def test_a_hundred_messages_come_unless_said_otherwise(client, broker):
    await fill(broker, 150)
    assert len((await client.get(PATH)).json()["messages"]) == 100


async def test_an_empty_partition_is_an_empty_page(client):
    assert (await client.get(PATH)).json() == {"messages": [], "next_offset": 0, "expired": 0}


async def test_the_partition_may_be_a_query_parameter(client, broker):
    await fill(broker, 1)
    assert len((await client.get("/topics/orders/messages?partition=0")).json()["messages"]) == 1
    assert (await client.get("/topics/orders/messages?partition=1")).json()["messages"] == []


@pytest.mark.parametrize("count", [501, 2_000, 10_000])
async def test_a_large_page_is_streamed_whole(client, broker, count):
    await fill(broker, count)
    response = await client.get(PATH, params={"limit": count})
    assert "content-length" not in response.headers
    assert numbers(response.json()) == list(range(count))
    assert response.json()["next_offset"] == count


async def test_a_large_page_is_streamed_as_messagepack(client, broker):
    await fill(broker, 1_200)
    response = await client.get(PATH, params={"limit": 2_000}, headers={"accept": "application/msgpack"})
    page = msgspec.msgpack.decode(response.content)
    assert "content-length" not in response.headers
    assert (numbers(page), page["next_offset"]) == (list(range(1_200)), 1_200)


async def test_few_large_messages_are_streamed_too(client, broker):
    await fill(broker, 4, size=100_000)
    response = await client.get(PATH)
    assert "content-length" not in response.headers
    assert numbers(response.json()) == [0, 1, 2, 3]


async def test_long_values_are_cut_at_the_end_of_a_character(client, broker):
    values = ["short", "äöü" * 10, "x" * 11, b"\xff" * 20, None]
    await broker.publish(
        "orders", [NewMessage(value=each.encode() if isinstance(each, str) else each) for each in values]
    )
    page = (await client.get(PATH, params={"max_value_bytes": 11})).json()
    shown = [(each.get("value", each.get("value_base64")), each.get("value_bytes")) for each in page["messages"]]
    assert shown == [("short", None), ("äöüäö", 60), ("x" * 11, None), ("//////////////8=", 20), (None, None)]
    assert (await client.get(PATH, params={"max_value_bytes": 0})).status_code == 400


async def test_long_values_of_a_large_page_are_cut(client, broker):
    await fill(broker, 40, 20_000)
    page = (await client.get(PATH, params={"max_value_bytes": 100})).json()
    assert [(len(each["value"]), each["value_bytes"]) for each in page["messages"]] == [(100, 20_000)] * 40


async def test_at_most_ten_thousand_messages_come(client, broker):
    await fill(broker, 10_050)
    response = await client.get(PATH, params={"limit": 50_000})
    assert len(response.json()["messages"]) == 10_000


@pytest.mark.parametrize(
    ("encoding", "opened"),
    [("gzip", gzip.decompress), ("zstd", lambda data: zstandard.ZstdDecompressor().stream_reader(data).read())],
)
@pytest.mark.parametrize("count", [100, 3_000])
async def test_responses_are_compressed_when_the_client_asks(client, broker, encoding, opened, count):
    await fill(broker, count)
    request = client.build_request("GET", PATH, params={"limit": 5_000}, headers={"accept-encoding": encoding})
    response = await client.send(request, stream=True)
    raw = b"".join([piece async for piece in response.aiter_raw()])
    assert response.headers["content-encoding"] == encoding
    assert "accept-encoding" in response.headers["vary"]
    assert numbers(msgspec.json.decode(opened(raw))) == list(range(100 if count == 100 else 3_000))


async def test_small_responses_are_not_compressed(client):
    response = await client.get("/health", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in response.headers


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("offset=-1", "`$.offset`"),
        ("offset=x", "`$.offset`"),
        ("limit=0", "`$.limit`"),
        ("limit=ten", "`$.limit`"),
        ("from_time=yesterday", "from_time 'yesterday'"),
        ("to_time=-5", "to_time '-5'"),
        ("isolation=none", "`$.isolation`"),
        ("&".join(["a=1"] * 200), "query string"),
    ],
)
async def test_a_bad_query_is_400_and_named(client, query, said):
    response = await client.get(f"{PATH}?{query}")
    assert response.status_code == 400
    assert said in response.json()["error"]


async def test_unknown_query_fields_are_ignored_and_known_ones_need_a_value(client):
    assert (await client.get(PATH + "?colour=red&taste=")).status_code == 200
    for name in ("offset", "limit", "from_time"):
        response = await client.get(PATH + f"?{name}=")
        assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
        assert name in response.json()["error"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/topics/orders/partitions/9/messages", 404, "partition_not_found"),
        ("/topics/orders/partitions/-1/messages", 400, "invalid_request"),
        ("/topics/orders/partitions/%00/messages", 400, "invalid_request"),
        ("/topics/orders/partitions/99999999999999999999/messages", 400, "invalid_request"),
        ("/topics/nothing/partitions/0/messages", 404, "topic_not_found"),
        ("/topics/a%2Fb/partitions/0/messages", 400, "invalid_name"),
    ],
)
async def test_what_is_not_there_is_named(client: httpx.AsyncClient, path, status, code):
    response = await client.get(path)
    assert (response.status_code, response.json()["code"]) == (status, code)
