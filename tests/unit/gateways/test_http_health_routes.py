import asyncio

import pytest

from quiver.gateways.http.routes.node.health import Readiness
from quiver.system.files import Files
from quiver.telemetry.loop_lag import LoopLag
from unit.gateways.fake_broker import FakeBroker

CHECKS = {"disk", "storage", "event_loop_lag", "memory"}


@pytest.mark.parametrize(("path", "status"), [("/health", "ok"), ("/healthz", "pass"), ("/livez", "pass")])
async def test_a_living_broker_says_so(client, broker: FakeBroker, path, status):
    broker.clock.seconds = 12.5
    response = (await client.get(path)).json()
    assert response == {"status": status, "timestamp": "2027-01-15T08:00:12.500Z", "uptime": 12.5}


async def test_a_ready_broker_passes_every_check(client):
    response = await client.get("/readyz")
    body = response.json()
    assert (response.status_code, body["status"], set(body["checks"])) == (200, "pass", CHECKS)
    assert all(check["status"] == "pass" and check["latency"] >= 0 for check in body["checks"].values())
    assert "problems" not in body


async def test_partitions_that_take_no_writes_are_named(client, broker: FakeBroker):
    broker.trouble = {f"orders-{n}": "fsync failed" for n in range(5)}
    response = await client.get("/readyz?verbose=true")
    storage = response.json()["checks"]["storage"]
    assert (response.status_code, response.json()["status"], storage["status"]) == (503, "fail", "fail")
    assert storage["message"].endswith("orders-2: fsync failed; and 2 more")
    assert response.json()["problems"] == broker.trouble


async def test_a_broker_that_stops_is_not_ready(client, readiness: Readiness):
    readiness.stopping = True
    assert (await client.get("/readyz")).status_code == 503


async def test_too_little_room_on_the_disk_is_not_ready(broker, tmp_path):
    readiness = Readiness(broker, lag=LoopLag(), files=Files(), data_dir=tmp_path, min_free_bytes=2**62)
    assert (await readiness.checks())["disk"].status == "fail"


async def test_a_check_that_fails_itself_counts_as_failed(broker, tmp_path):
    readiness = Readiness(broker, lag=LoopLag(), files=Files(), data_dir=tmp_path / "gone", min_free_bytes=1)
    check = (await readiness.checks())["disk"]
    assert (check.status, "No such file" in check.message) == ("fail", True)


class TightMemory(Files):
    """A process that uses 96 of the 100 MiB its control group grants."""

    def read_file(self, path):
        return {"statm": b"9 24576 1", "meminfo": b"MemTotal: 8000000 kB", "memory.max": b"104857600\n"}[path.name]


async def test_a_process_near_its_memory_limit_is_not_ready(broker):
    readiness = Readiness(broker, lag=LoopLag(), files=TightMemory(), data_dir=None, min_free_bytes=1)
    checks = await readiness.checks()
    assert (checks["memory"].status, checks["memory"].message) == ("fail", "96 of 100 MiB")
    assert checks["disk"].status == "pass"


async def test_the_version_and_the_stats(client, broker: FakeBroker):
    assert (await client.get("/version")).json() == {"version": "1.2.3", "git_commit": "abc", "build_time": "today"}
    await client.post("/topics/orders/messages", json={"messages": [{"value": "a"}]})
    stats = (await client.get("/stats")).json()
    assert (stats["node_id"], stats["topics"], stats["total_size_bytes"]) == ("node-1", 2, 100)
    assert stats["topic_stats"]["orders"] == {"messages": 1, "size_bytes": 100, "partitions": 2}


async def test_a_loop_that_is_held_is_not_ready(broker):
    lag = LoopLag()
    loop = asyncio.get_running_loop()
    lag._fired(loop, loop.time() - 2.0)
    lag.stop()
    readiness = Readiness(broker, lag=lag, files=Files(), data_dir=None, min_free_bytes=1)
    assert (await readiness.checks())["event_loop_lag"].status == "fail"
