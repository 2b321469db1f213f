import msgspec
import pytest


async def test_a_topic_is_created_with_its_settings(client):
    body = {"name": "new", "partitions": 6, "retention": "1h30m", "durability": "interval", "colour": "red"}
    response = await client.post("/topics", json=body)
    assert response.status_code == 201
    assert response.json() == {"name": "new", "partitions": 6, "num_partitions": 6, "created": True}
    config = (await client.get("/topics/new")).json()["config"]
    assert (config["retention"], config["durability"]) == ("1h30m", "interval")


async def test_the_other_names_of_settings_work(client):
    response = await client.post("/topics", json={"name": "new", "num_partitions": 2, "retention_hours": 36})
    assert response.json()["partitions"] == 2
    assert (await client.get("/topics/new")).json()["config"]["retention"] == "1d12h"


async def test_null_settings_count_as_absent_and_none_is_no_limit(client):
    await client.post("/topics", json={"name": "a", "partitions": None, "retention": None})
    await client.post("/topics", json={"name": "b", "retention": "none"})
    first, second = (await client.get("/topics/a")).json(), (await client.get("/topics/b")).json()
    assert (first["partitions"], first["config"]["retention"], second["config"]["retention"]) == (3, "7d", None)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_request"),
        ({"name": 5}, 400, "invalid_request"),
        ({"name": "orders"}, 409, "topic_exists"),
        ({"name": "a/b"}, 400, "invalid_name"),
        ({"name": ".."}, 400, "invalid_name"),
        ({"name": "x" * 241}, 400, "invalid_name"),
        ({"name": "nul\0"}, 400, "invalid_name"),
        ({"name": "new", "partitions": 0}, 400, "invalid_setting"),
        ({"name": "new", "partitions": "six"}, 400, "invalid_request"),
        ({"name": "new", "durability": "maybe"}, 400, "invalid_setting"),
        ({"name": "new", "partitions": 2, "num_partitions": 3}, 400, "invalid_request"),
        ({"name": "new", "retention": "1h", "retention_hours": 1}, 400, "invalid_request"),
    ],
)
async def test_a_bad_topic_is_refused(client, body, status, code):
    response = await client.post("/topics", json=body)
    assert (response.status_code, response.json()["code"]) == (status, code)


async def test_the_list_is_complete_or_paged(client):
    assert (await client.get("/topics")).json() == {"topics": ["orders", "single"], "count": 2}
    first = (await client.get("/topics?limit=1")).json()
    assert first == {"topics": ["orders"], "count": 2, "next_skip": 1, "next_cursor": "orders"}
    assert (await client.get("/topics?limit=1&skip=1")).json() == {"topics": ["single"], "count": 2}
    assert (await client.get("/topics?limit=1&cursor=orders")).json() == {"topics": ["single"], "count": 2}
    assert (await client.get("/topics?cursor=a")).json()["topics"] == ["orders", "single"]


async def test_topics_are_searched_by_a_part_of_their_names(client):
    assert (await client.get("/topics?search=RDER")).json() == {"topics": ["orders"], "count": 1}
    assert (await client.get("/topics?search=%2A")).json() == {"topics": [], "count": 0}


async def test_a_description_has_counts_sizes_and_offsets(client):
    await client.post("/topics/orders/messages", json={"messages": [{"value": "a", "partition": 1}] * 3})
    topic = (await client.get("/topics/orders")).json()
    assert (topic["partitions"], topic["total_messages"], topic["total_size_bytes"]) == (2, 3, 300)
    assert topic["partition_offsets"]["1"] == {"earliest": 0, "latest": 3, "size_bytes": 300}


async def test_a_topic_is_altered_grown_purged_and_deleted(client):
    altered = await client.patch("/topics/orders", json={"retention": "1h"})
    assert altered.json()["config"]["retention"] == "1h"
    grown = await client.post("/admin/topics/orders/partitions", json={"count": 5})
    assert grown.json() == {
        "success": True,
        "topic_name": "orders",
        "old_partition_count": 2,
        "new_partition_count": 5,
        "partitions_added": [2, 3, 4],
    }
    assert (await client.post("/topics/orders/purge")).json() == {"name": "orders", "purged": True}
    assert (await client.delete("/topics/orders")).json() == {"name": "orders", "deleted": True}
    assert (await client.delete("/topics/orders")).status_code == 404


async def test_growing_needs_a_count(client):
    response = await client.post("/admin/topics/orders/partitions", json={})
    assert (response.status_code, "count" in response.json()["error"]) == (400, True)


@pytest.mark.parametrize("path", ["/nothing", "/v2/topics", "/topics/", "/topics/a/b/c", "/v1topics"])
async def test_unknown_routes_are_404_objects(client, path):
    response = await client.get(path)
    assert (response.status_code, response.json()["code"]) == (404, "route_not_found")


async def test_a_wrong_method_is_405_and_says_which_are_right(client):
    response = await client.put("/topics")
    assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
    assert response.headers["allow"] == "GET, POST, HEAD"


async def test_errors_take_the_form_the_client_asked_for(client):
    response = await client.get("/topics/nothing", headers={"accept": "application/msgpack"})
    assert msgspec.msgpack.decode(response.content)["code"] == "topic_not_found"


async def test_head_is_get_without_a_body(client):
    assert (await client.head("/topics")).status_code == 200
