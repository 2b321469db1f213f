import re

import msgspec

from quiver.gateways.http.openapi import openapi_document
from quiver.model.errors import CATALOGUE


async def document(client) -> dict:
    response = await client.get("/openapi.json")
    assert response.headers["content-type"] == "application/json"
    return response.json()


def references(node) -> set[str]:
    if isinstance(node, dict):
        return {node["$ref"]} if "$ref" in node else set().union(*map(references, node.values()), set())
    return set().union(*map(references, node), set()) if isinstance(node, list) else set()


async def test_every_route_is_described(client):
    paths = (await document(client))["paths"]
    described = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert described == {
        "GET /health",
        "GET /healthz",
        "GET /livez",
        "GET /logs",
        "GET /node",
        "GET /readyz",
        "GET /version",
        "GET /stats",
        "GET /metrics",
        "GET /overview",
        "GET /overview/stream",
        "GET /openapi.json",
        "GET /docs",
        "POST /topics",
        "GET /topics",
        "GET /topics/{topic}",
        "PATCH /topics/{topic}",
        "DELETE /topics/{topic}",
        "POST /topics/{topic}/purge",
        "POST /topics/{topic}/search",
        "GET /topics/{topic}/dlq/errors",
        "GET /jobs",
        "GET /jobs/{job}",
        "DELETE /jobs/{job}",
        "GET /topics/{topic}/queues/{group}/leases",
        "POST /topics/{topic}/queues/{group}/pause",
        "POST /topics/{topic}/queues/{group}/resume",
        "GET /topics/{topic}/tail",
        "GET /search/{search}",
        "DELETE /search/{search}",
        "GET /topics/{topic}/delayed",
        "GET /topics/{topic}/delayed/{id}",
        "DELETE /topics/{topic}/delayed/{id}",
        "GET /topics/{topic}/delayed/{partition}/{id}",
        "DELETE /topics/{topic}/delayed/{partition}/{id}",
        "GET /delay/stats",
        "POST /topics/{topic}/messages",
        "GET /topics/{topic}/messages",
        "GET /topics/{topic}/partitions/{partition}/messages",
        "GET /topics/{topic}/partitions/{partition}/messages/{offset}/life",
        "POST /admin/topics/{topic}/partitions",
        "GET /traces",
        "GET /traces/search",
        "GET /traces/stats",
        "GET /traces/{trace}",
        "GET /groups",
        "GET /groups/{group}",
        "PATCH /groups/{group}",
        "DELETE /groups/{group}",
        "GET /groups/{group}/assignment",
        "GET /groups/{group}/cooperative",
        "GET /groups/{group}/offsets",
        "POST /groups/{group}/offsets",
        "POST /groups/{group}/offsets/reset",
        "GET /groups/{group}/poll",
        "GET /groups/{group}/rebalance/stats",
        "POST /groups/{group}/heartbeat",
        "POST /groups/{group}/heartbeat/cooperative",
        "POST /groups/{group}/join",
        "POST /groups/{group}/join/cooperative",
        "POST /groups/{group}/leave",
        "POST /groups/{group}/leave/cooperative",
        "POST /groups/{group}/revoke",
        "GET /rebalance/stats",
        "GET /",
        "GET /cluster",
        "GET /cluster/health",
        "GET /cluster/nodes",
        "GET /cluster/partitions",
        "GET /admin/topics/{topic}/scaling-status",
        "DELETE /cluster/nodes/{node}",
        "POST /cluster/nodes/{node}/drain",
        "DELETE /cluster/nodes/{node}/drain",
        "POST /cluster/rebalance",
        "GET /admin/reassignment",
        "POST /admin/reassignment",
        "GET /admin/reassignment/{id}",
        "DELETE /admin/reassignment/{id}",
        "GET /console",
        "GET /console/",
        "GET /console/static/{version}/{file}",
        "GET /console/static/{version}/{folder}/{file}",
        "POST /topics/{topic}/receive",
        "POST /messages/ack",
        "POST /messages/nack",
        "POST /messages/reject",
        "POST /messages/visibility",
        "GET /topics/{topic}/queues",
        "GET /topics/{topic}/queues/{group}",
        "GET /topics/{topic}/dlq",
        "POST /topics/{topic}/dlq/redrive",
        "POST /topics/{topic}/dlq/purge",
        "PATCH /topics/{topic}/delayed/{partition}/{id}",
        "PUT /logs/level",
        "GET /reliability/stats",
        "GET /priority/stats",
        "GET /schedules",
        "POST /schedules",
        "GET /schedules/{schedule}",
        "PATCH /schedules/{schedule}",
        "DELETE /schedules/{schedule}",
        "POST /schedules/{schedule}/run",
        "POST /admin/topics/{topic}/compact",
        "GET /support-bundle",
        "GET /producers",
        "POST /producers/init",
        "POST /producers/{producer}/heartbeat",
        "GET /transactions",
        "GET /transactions/stats",
        "POST /transactions/begin",
        "POST /transactions/publish",
        "POST /transactions/add-partition",
        "POST /transactions/add-offsets",
        "POST /transactions/commit",
        "POST /transactions/abort",
    }


async def test_every_reference_leads_somewhere_and_every_schema_is_used(client):
    described = await document(client)
    names = {reference.removeprefix("#/components/schemas/") for reference in references(described)}
    assert names == set(described["components"]["schemas"])


async def test_operations_have_ids_of_their_own_and_their_path_parameters(client):
    operations = [
        (path, operation)
        for path, methods in (await document(client))["paths"].items()
        for operation in methods.values()
    ]
    assert len({operation["operationId"] for _, operation in operations}) == len(operations)
    for path, operation in operations:
        named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))


async def test_requests_errors_and_query_fields_are_described(client):
    described = await document(client)
    publish = described["paths"]["/topics/{topic}/messages"]["post"]
    assert publish["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/PublishRequest")
    assert "application/msgpack" in publish["requestBody"]["content"]
    assert "topic_not_found" in publish["responses"]["404"]["description"]
    assert "deliverAt" in described["components"]["schemas"]["MessageToPublish"]["properties"]
    read = described["paths"]["/topics/{topic}/messages"]["get"]
    assert {"offset", "limit", "from_time", "to_time", "isolation", "partition"} <= {
        parameter["name"] for parameter in read["parameters"]
    }
    assert described["paths"]["/topics"]["post"]["responses"].keys() >= {"201", "400", "409"}


async def test_codes_in_the_document_are_codes_of_the_catalogue(client):
    described = await document(client)
    for methods in described["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert set(response["description"].split(", ")) <= set(CATALOGUE)


def test_a_document_without_routes_is_still_one():
    assert msgspec.json.encode(openapi_document({}, "1"))


async def test_the_page_loads_nothing_from_elsewhere(client):
    response = await client.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", response.text)


async def test_requests_say_what_is_required_and_within_which_bounds(client):
    described = await document(client)
    schemas = described["components"]["schemas"]
    required = {
        "PublishRequest": ["messages"],
        "ReceiveRequest": ["group"],
        "CreateTopicRequest": ["name"],
        "AddPartitionsRequest": ["count"],
        "HeartbeatRequest": ["member_id"],
        "RevokeRequest": ["member_id", "revoked_partitions"],
        "CommitRequest": ["offsets"],
        "ResetRequest": ["topic"],
        "AddScheduleRequest": ["cron", "topic"],
        "TransactionPublishRequest": ["producer_id", "epoch", "topic"],
    }
    assert {name: schemas[name]["required"] for name in required} == required
    assert schemas["CreateTopicRequest"]["properties"]["name"] == {
        "type": "string",
        "pattern": "^[A-Za-z0-9._-]{1,240}$",
        "maxLength": 240,
    }
    assert (schemas["TopicSettings"]["properties"]["partitions"]["maximum"]) == 10_000
    assert schemas["MessageToPublish"]["properties"]["partition"]["minimum"] == 0
    assert schemas["AckRequest"]["properties"]["receipts"]["maxItems"] == 10_000
    assert not [name for name in schemas if not name.isidentifier() or "_" in name], "a name that two types have"
    assert "x-needed" not in msgspec.json.encode(described).decode()


async def test_a_body_is_required_where_a_request_without_one_is_refused(client):
    described = await document(client)
    needed = {
        path
        for path, methods in described["paths"].items()
        for operation in methods.values()
        if operation.get("requestBody", {}).get("required")
    }
    assert {
        "/topics",
        "/messages/ack",
        "/transactions/begin",
        "/transactions/commit",
        "/groups/{group}/join",
    } <= needed
    assert not {"/topics/{topic}", "/producers/init", "/topics/{topic}/dlq/purge"} & needed


async def test_query_fields_have_no_null_and_say_if_they_are_required(client):
    described = await document(client)
    for methods in described["paths"].values():
        for operation in methods.values():
            for field in operation["parameters"]:
                assert {"type": "null"} not in field["schema"].get("anyOf", [])
                assert field["schema"].get("default", 0) is not None
    poll = described["paths"]["/groups/{group}/poll"]["get"]["parameters"]
    assert [field["name"] for field in poll if field["required"]] == ["group", "member_id"]


async def test_statuses_that_every_request_may_meet_are_there(client):
    described = await document(client)
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            statuses = set(operation["responses"])
            assert statuses >= {"403", "500", "503"}, path
            if method != "get":
                assert "507" in statuses, path
            if "requestBody" in operation:
                assert statuses >= {"400", "408", "413", "415"}, path
