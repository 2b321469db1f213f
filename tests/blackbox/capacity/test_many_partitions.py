"""Many partitions and many groups: whatever walks over all of them lets the event loop serve others meanwhile.

The suite has 1,000 partitions and 500 groups; `make chaos` (QUIVER_LONG=1) has 10,000 and 2,000.
"""

import http.client
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.callers.get_routes import filled, get_routes, names_in
from blackbox.callers.http_caller import HttpCaller
from blackbox.callers.native_wire import NativeWire
from blackbox.callers.pings import STALL_SECONDS as PROMISED_SECONDS
from blackbox.callers.pings import Pings
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.protocol.messages import Fetch, FetchPart, GetMetadata, Metadata

LONG = bool(os.environ.get("QUIVER_LONG"))
PARTITIONS = 10_000 if LONG else 1_000
GROUPS = 2_000 if LONG else 500
WAITING_GROUPS = 500
STALL_SECONDS = PROMISED_SECONDS if LONG else 3 * PROMISED_SECONDS
"""Beside other tests everything takes longer; what walks over all partitions in one piece takes longer still."""
ROUNDS = 3
"""A stall of the broker's own making comes in every round, noise of the machine does not."""
SECONDS = 300.0
STOP_SECONDS = 60.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800 if LONG else 300)]


class Large:
    """A broker with a topic `wide` of many partitions, all in use, and a topic `narrow` with many queue groups."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker

    def call(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.broker.request(method, path, body, timeout=SECONDS)
        assert status < 400, (method, path, answer)
        return answer

    def fill(self) -> None:
        self.call("POST", "/topics", {"name": "wide", "partitions": PARTITIONS})
        self.publish()
        self.call("POST", "/topics/wide/receive", {"group": "workers", "max_messages": 10_000, "consumer": "c"})
        self.call("POST", "/groups/stream/join", {"topics": ["wide"], "client_id": "c"})
        self.call("POST", "/topics", {"name": "narrow", "partitions": 1})
        self.call("POST", "/topics/narrow/messages", {"messages": [{"value": "x"}]})
        for number in range(GROUPS):
            self.call("POST", "/topics/narrow/receive", {"group": f"g{number}", "consumer": "c", "visibility": "1h"})

    def publish(self, topic: str = "wide", **more: Any) -> None:
        messages = [{"value": "x", "partition": number, **more} for number in range(PARTITIONS)]
        results = self.call("POST", f"/topics/{topic}/messages", {"messages": messages})["results"]
        assert [result["partition"] for result in results] == list(range(PARTITIONS))

    def longest_stall(
        self, work: Callable[[], Any], rounds: int = ROUNDS, *, prepare: Callable[[], Any] = lambda: None
    ) -> float:
        """The shortest of the longest stalls of each round; one that is short enough is the last."""
        longest: list[float] = []
        while len(longest) < rounds and not (longest and longest[-1] < STALL_SECONDS):
            prepare()
            pings = Pings(self.broker)
            pings.start()
            try:
                work()
            finally:
                longest.append(pings.finish())
            assert pings.count > 0
        print("the loop was held at most, ms:", [round(seconds * 1000, 1) for seconds in longest])
        return min(longest)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    with BrokerProcess(tmp_path_factory.mktemp("large") / "data") as broker:
        found = Large(broker)
        found.fill()
        yield found


def test_publishing_to_every_partition(large: Large) -> None:
    assert large.longest_stall(large.publish) < STALL_SECONDS


def test_every_route_that_looks(large: Large) -> None:
    """Also with thousands of groups and partitions in the answer."""
    values = {"topic": ["wide", "narrow"], "group": ["workers", "stream", "g1"], "partition": ["1"]}
    routes = [route for route in get_routes(large.call("GET", "/openapi.json")) if set(names_in(route)) <= {*values}]
    paths = [path for route in routes for path in filled(route, values)]
    assert {"/groups", "/stats", "/priority/stats", "/reliability/stats", "/topics/wide/queues"} <= {*paths}
    caller, held = HttpCaller(large.broker.http_port, timeout=SECONDS), {}
    for path in paths:
        held[path] = large.longest_stall(lambda path=path: caller.raw("GET", path))
    print({path: round(seconds * 1000, 1) for path, seconds in held.items()})
    assert {path: seconds for path, seconds in held.items() if seconds >= STALL_SECONDS} == {}


def test_descriptions_and_fetches_over_the_native_port(large: Large) -> None:
    with NativeWire(large.broker.address) as wire:
        metadata = wire.ask(GetMetadata(["wide"]))
        assert isinstance(metadata, Metadata)
        topic_id = metadata.topics[0].id
    parts = [FetchPart(topic_id, number, 0, 4096) for number in range(PARTITIONS)]

    def look() -> None:
        with quiver.connect(large.broker.address) as q:
            q.topics.describe("wide")
            q.groups.describe("workers")
            assert len(q.groups.list()) == GROUPS + 2
        with NativeWire(large.broker.address) as wire:
            wire.ask(Fetch(parts, 0, 1, 64 << 20))

    assert large.longest_stall(look) < STALL_SECONDS


def test_rebalances_of_a_group_that_reads_every_partition(large: Large) -> None:
    def join_and_leave() -> None:
        joined = [
            large.call("POST", "/groups/members/join/cooperative", {"topics": ["wide"], "client_id": f"c{number}"})
            for number in range(3)
        ]
        first = {"member_id": joined[0]["member_id"]}
        large.call("POST", "/groups/members/heartbeat/cooperative", first)
        for member in joined:
            large.call("POST", "/groups/members/leave/cooperative", {"member_id": member["member_id"]})

    assert large.longest_stall(join_and_leave) < STALL_SECONDS


def test_one_publish_that_every_group_waits_for(large: Large) -> None:
    """All groups get the message."""
    calls = [
        http.client.HTTPConnection("127.0.0.1", large.broker.http_port, timeout=SECONDS)
        for _ in range(WAITING_GROUPS)
    ]

    def wait() -> None:
        for number, call in enumerate(calls):
            wanted = {"group": f"g{number}", "consumer": "c", "wait": "60s", "visibility": "1h"}
            call.request("POST", "/topics/narrow/receive", json.dumps(wanted), {"content-type": "application/json"})
        large.call("GET", "/health")

    def publish() -> None:
        large.call("POST", "/topics/narrow/messages", {"messages": [{"value": "x"}]})
        assert [len(json.loads(call.getresponse().read())["messages"]) for call in calls] == [1] * len(calls)

    try:
        assert large.longest_stall(publish, prepare=wait) < STALL_SECONDS
    finally:
        for call in calls:
            call.close()


def test_delayed_messages_in_every_partition(large: Large) -> None:
    def delay_and_list() -> None:
        large.publish(delay=3600)
        assert large.call("GET", "/topics/wide/delayed?limit=10")["count"] >= PARTITIONS
        large.call("GET", "/delay/stats")

    assert large.longest_stall(delay_and_list, 2) < STALL_SECONDS


def test_topics_come_grow_and_go(large: Large) -> None:
    """And their files with them."""
    before = _directories(large)

    def create_and_delete() -> None:
        large.call("POST", "/topics", {"name": "brief", "partitions": PARTITIONS // 2})
        large.call("POST", "/admin/topics/brief/partitions", {"count": PARTITIONS})
        large.publish("brief")
        large.call("DELETE", "/topics/brief")

    assert large.longest_stall(create_and_delete, 2) < STALL_SECONDS
    wait_until(lambda: _directories(large) == before, SECONDS, "the files of deleted topics are gone")


def _directories(large: Large) -> list[Path]:
    return sorted((large.broker.data_dir / "logs/topics").iterdir())


def test_the_broker_stops_and_starts_in_time(large: Large) -> None:
    """Comes last: it stops the broker of the others. What was published is there afterwards."""
    before = large.call("GET", "/topics/wide")["total_messages"]
    assert large.broker.terminate(STOP_SECONDS) == 0
    large.broker.start(wait=False).wait_ready(SECONDS)
    assert large.call("GET", "/topics/wide")["total_messages"] == before
    large.call("DELETE", "/topics/wide")
    assert large.broker.terminate(STOP_SECONDS) == 0


def test_few_open_files_are_enough(tmp_path: Path) -> None:
    """Partitions that are not in use at the moment give theirs up."""
    limit = ["prlimit", "--nofile=256:256"]
    with BrokerProcess(tmp_path / "data", prefix=limit) as broker:
        large = Large(broker)
        large.call("POST", "/topics", {"name": "wide", "partitions": PARTITIONS})
        large.publish()
        large.publish()
        received = large.call("POST", "/topics/wide/receive", {"group": "g", "max_messages": 500, "consumer": "c"})
        assert len(received["messages"]) == 500
        assert len(list(Path(f"/proc/{broker.pid}/fd").iterdir())) < 256
        assert broker.terminate(STOP_SECONDS) == 0
