"""Queen's interface on a port of its own, which two workers serve."""

from pathlib import Path
from typing import Any

import httpx

from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until

WORKERS = 2
PARTITIONS = 4
EACH = 5


def test_queens_port_reaches_all_owners(tmp_path: Path) -> None:
    port = free_port()
    process = BrokerProcess(tmp_path / "data", "--workers", str(WORKERS), "--queen-port", str(port))
    with process as broker, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as queen:
        wanted = {f"{partition}-{n}" for partition in range(PARTITIONS) for n in range(EACH)}
        items = [{"queue": "jobs", "partition": name[0], "payload": name, "transactionId": name} for name in wanted]
        assert {each["status"] for each in _push(queen, items)} == {"queued"}
        assert {each["status"] for each in _push(queen, items)} == {"duplicate"}
        assert queen.get("/health").json()["status"] == "healthy"
        assert queen.get("/topics").status_code == 404, "only Queen's routes are here"
        got = _take(queen, len(wanted) // 2)
        broker.kill_worker(0)
        broker.kill_worker(1)
        wait_until(lambda: got.extend(_take(queen, 1)) or len(got) >= len(wanted), 60, "all messages are popped")
        assert sorted(got) == sorted(wanted), "what is acked before a kill does not come again"
        assert _pop(queen) == []


def _push(queen: httpx.Client, items: list[dict[str, str]]) -> Any:
    answer = queen.post("/api/v1/push", json={"items": items})
    assert answer.status_code == 201, answer.text
    return answer.json()


def _take(queen: httpx.Client, count: int) -> list[str]:
    """Pops and acks; a worker that was just killed may be asked."""
    taken: list[str] = []
    while len(taken) < count:
        messages = _pop(queen)
        for message in messages:
            ids = {name: message[name] for name in ("transactionId", "partitionId", "leaseId") if name in message}
            answer = queen.post("/api/v1/ack", json={**ids, "status": "completed"})
            assert answer.status_code == 200, answer.text
            taken.append(message["data"])
        if not messages:
            break
    return taken


def _pop(queen: httpx.Client) -> list[dict[str, Any]]:
    answer = queen.get("/api/v1/pop/queue/jobs", params={"batch": 3})
    if answer.status_code in (204, 503):
        return []
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found
