"""Compaction through the shipped program: HTTP, SDK, CLI, on its own, and with kill -9 in the middle."""

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from blackbox.processes.cli_process import Cli
from quiver.model.errors import InvalidRequest, PartitionNotFound

StartBroker = Callable[..., BrokerProcess]


def fill(q: quiver.Client, topic: str, versions: int, keys: int, seed: int = 0) -> dict[bytes, bytes]:
    """Publishes versions of keys in random order; returns the last of each."""
    chance, last = random.Random(seed), {}
    with q.producer(topic) as producer:
        for _ in range(versions):
            for key in chance.sample(range(keys), keys):
                last[b"key %d" % key] = value = chance.randbytes(60)
                producer.send(value, key=b"key %d" % key)
            producer.flush()
    return last


def read_table(q: quiver.Client, topic: str) -> dict[bytes, bytes]:
    """What a reader from the beginning ends up with."""
    found: dict[bytes, bytes] = {}
    last: dict[int, int] = {}
    for message in q.read(topic, start="earliest", end="latest"):
        assert message.offset > last.get(message.partition, -1)
        last[message.partition] = message.offset
        if message.value is None:
            found.pop(message.key, None)
        else:
            found[message.key] = message.value
    return found


def test_by_hand_over_http(shared_broker: BrokerProcess, q: quiver.Client) -> None:
    q.topics.create("by-hand", partitions=2, cleanup="compact")
    expected = fill(q, "by-hand", versions=10, keys=100)
    ends = [latest for _, latest in q.topics.describe("by-hand").offsets]
    before = q.topics.describe("by-hand").size_bytes
    path = "/admin/topics/by-hand/compact"
    status, dry = shared_broker.request("POST", path, {"dry_run": True})
    assert (status, dry["records_before"], dry["records_after"], dry["dirty_ratio"]) == (200, 1000, 100, 1.0)
    assert q.topics.describe("by-hand").size_bytes == before
    status, one = shared_broker.request("POST", path, {"partitions": [1]})
    assert (status, list(one["partitions"]), one["dry_run"]) == (200, ["1"], False)
    status, both = shared_broker.request("POST", path)
    assert (status, both["records_after"], both["partitions"]["1"]["dirty_ratio"]) == (200, 100, 0.0)
    assert both["records_before"] < 1000
    assert read_table(q, "by-hand") == expected
    details = q.topics.describe("by-hand")
    assert details.size_bytes < before / 4
    assert details.offsets == [(0, end) for end in ends]
    q.publish("by-hand", b"later", key=b"key 1")
    assert read_table(q, "by-hand") == expected | {b"key 1": b"later"}


def test_single_messages_are_found_where_they_were(shared_broker: BrokerProcess, q: quiver.Client) -> None:
    q.topics.create("places", partitions=1, cleanup="compact")
    for n in range(20):
        q.publish("places", b"%d" % n, key=b"%d" % (n % 3))
    q.topics.compact("places")
    _, page = shared_broker.request("GET", "/topics/places/partitions/0/messages?offset=5")
    assert [(message["offset"], message["value"]) for message in page["messages"]] == [
        (17, "17"),
        (18, "18"),
        (19, "19"),
    ]
    assert [m.offset for m in q.read("places", start=18, end="latest")] == [18, 19]


def test_what_is_refused(shared_broker: BrokerProcess, q: quiver.Client) -> None:
    q.topics.create("plain", partitions=1)
    with pytest.raises(InvalidRequest, match="cleanup"):
        q.topics.compact("plain")
    q.publish("plain", b"1", key=b"a")
    q.publish("plain", b"2", key=b"a")
    assert q.topics.compact("plain", dry_run=True).records_after == 1
    q.topics.create("keyed", partitions=1, cleanup="compact,delete")
    with pytest.raises(InvalidRequest, match="needs a key"):
        q.publish("keyed", b"no key")
    with pytest.raises(InvalidRequest, match="needs a key"), q.producer("keyed") as producer:
        producer.send_many([b"1", b"2"], keys=[b"a", None])
    status, answer = shared_broker.request("POST", "/topics/keyed/messages", {"value": "no key"})
    assert (status, answer["code"]) == (400, "invalid_request")
    with pytest.raises(PartitionNotFound):
        q.topics.compact("keyed", partitions=[1])
    assert shared_broker.request("POST", "/admin/topics/nobody/compact")[0] == 404
    assert shared_broker.request("POST", "/admin/topics/keyed/compact", {"partitions": "all"})[0] == 400


def test_tombstones(shared_broker: BrokerProcess, q: quiver.Client) -> None:
    q.topics.create("deleted", partitions=1, cleanup="compact", tombstone_retention="1h")
    for key in (b"a", b"b"):
        q.publish("deleted", b"1", key=key)
    q.publish("deleted", None, key=b"a")
    q.topics.compact("deleted")
    found = [(m.offset, m.key, m.value) for m in q.read("deleted", start="earliest", end="latest")]
    assert found == [(1, b"b", b"1"), (2, b"a", None)]
    q.publish("deleted", None, key=b"b")
    q.topics.alter("deleted", tombstone_retention=0)
    assert q.topics.describe("deleted").settings["tombstone_retention"] == "0s"
    assert q.topics.compact("deleted").records_after == 0
    assert list(q.read("deleted", start="earliest", end="latest")) == []
    assert q.topics.describe("deleted").offsets == [(0, 4)]
    q.publish("deleted", b"again", key=b"a")
    assert [(m.offset, m.value) for m in q.read("deleted", start="earliest", end="latest")] == [(4, b"again")]


def test_the_command_line(shared_broker: BrokerProcess, q: quiver.Client, cli: Cli) -> None:
    q.topics.create("shell", partitions=2, cleanup="compact")
    fill(q, "shell", versions=3, keys=10)
    answer = json.loads(cli("topic", "compact", "shell", "--dry-run", "-o", "json").stdout)
    assert sum(row["records_after"] for row in answer) == 10
    rows = json.loads(cli("topic", "compact", "shell", "--partition", "1", "-o", "json").stdout)
    assert [row["partition"] for row in rows] == [1]
    assert b"RECORDS AFTER" in cli("topic", "compact", "shell").stdout
    assert b"plain-shell" in cli("topic", "compact", "plain-shell", fails=True).stderr


def test_groups_and_queues_go_on_over_holes(q: quiver.Client) -> None:
    q.topics.create("worked", partitions=1, cleanup="compact")
    for n in range(30):
        q.publish("worked", b"%d" % n, key=b"%d" % (n % 10))
    work = q.work("worked", group="workers", max_messages=3, prefetch=3)
    with work:
        first = next(iter(work))
        first.ack()
        q.topics.compact("worked")
        seen = {first.value}
        for job in work:
            with job:
                seen.add(job.value)
            if job.offset == 29:
                break
    assert {b"%d" % n for n in range(20, 30)} <= seen
    with q.stream("worked", group="readers", start="earliest") as stream:
        offsets = []
        for message in stream:
            offsets.append(message.offset)
            if message.offset == 29:
                break
    assert offsets == list(range(20, 30))


def test_it_happens_by_itself(start_broker: StartBroker) -> None:
    broker = start_broker()
    with quiver.connect(broker.address) as q:
        q.topics.create("quiet", partitions=1, cleanup="compact", segment_bytes=64 * 1024)
        expected = fill(q, "quiet", versions=40, keys=100)
        before = q.topics.describe("quiet").size_bytes
        wait_until(lambda: q.topics.describe("quiet").size_bytes < before / 2, 60, "compaction on a timer")
        assert read_table(q, "quiet") == expected
        broker.restart(kill=True)
    with quiver.connect(broker.address) as q:
        assert read_table(q, "quiet") == expected


@pytest.mark.parametrize("seed", [1])
def test_kills_in_the_middle(start_broker: StartBroker, seed: int, tmp_path: Path) -> None:
    """The broker is killed at random moments of a pass; the last values are always there, nothing comes back."""
    chance = random.Random(seed)
    broker = start_broker("--native-port", str(free_port()))
    expected: dict[bytes, bytes] = {}
    with quiver.connect(broker.address) as q:
        q.topics.create("table", partitions=1, cleanup="compact", segment_bytes=1 << 20, tombstone_retention=0)
        for turn in range(3):
            expected |= fill(q, "table", versions=30, keys=2_000, seed=10 * seed + turn)
            gone = b"key %d" % turn
            q.publish("table", None, key=gone)
            expected.pop(gone, None)
            directory = next((broker.data_dir / "logs/topics").glob("*/0"))
            asking = threading.Thread(target=_ask, args=(broker,))
            asking.start()
            wait_until(lambda: (directory / "compaction").exists() or not asking.is_alive(), 60, "new segments")  # noqa: B023
            asking.join(chance.choice([0.0, 0.005, 0.02, 0.05]))
            broker.kill()
            asking.join()
            broker.start()
            assert read_table(q, "table") == expected
        assert q.topics.compact("table").records_after == len(expected)
        assert read_table(q, "table") == expected
        assert not {"replacement", "compaction"} & {path.name for path in directory.iterdir()}


def _ask(broker: BrokerProcess) -> None:
    try:
        broker.request("POST", "/admin/topics/table/compact", {}, timeout=30)
    except OSError:
        return  # it was killed


def test_embedded(tmp_path: Path) -> None:
    with quiver.open(tmp_path / "data") as q:
        q.topics.create("inside", partitions=1, cleanup="compact")
        expected = fill(q, "inside", versions=5, keys=20)
        assert q.topics.compact("inside").records_after == 20
        assert read_table(q, "inside") == expected
