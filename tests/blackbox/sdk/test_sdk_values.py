"""Times, durations and sizes as programs, requests and commands give them."""

import asyncio
import os
import subprocess
import sys
from datetime import timedelta

import httpx
import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli
from quiver.model.errors import InvalidRequest, InvalidSetting, RequestTimeout

MIB = 1 << 20

NEW_YORKER = """
import sys
from datetime import UTC, datetime, timedelta

import quiver

address, topic = sys.argv[1:]
with quiver.connect(address) as q:
    in_an_hour = datetime.now() + timedelta(hours=1)
    placed = q.publish(topic, b"later", deliver_at=in_an_hour)
    waiting = q.delayed.get(topic, placed.partition, placed.offset)
    assert waiting.deliver_at_ms == int(in_an_hour.timestamp() * 1000), waiting

    noon = datetime(2026, 1, 31, 12)
    placed = q.publish(topic, b"old", timestamp=noon, partition=0)
    [message] = q.read(topic, end="latest", partitions=0)
    assert message.timestamp == int(noon.timestamp() * 1000), message.timestamp

    just_now = datetime.now() - timedelta(minutes=1)
    assert [found.value for found in q.read(topic, start=just_now, end="latest")] == [b"old"]
    assert q.offsets(topic, at=datetime.now() + timedelta(minutes=1)) == q.offsets(topic, at="latest")
    assert q.offsets(topic, at=just_now) == q.offsets(topic, at="earliest")
    with q.stream(topic, group="east", start=just_now) as messages:
        assert next(iter(messages)).value == b"old"
    assert q.groups.reset("east", topic, to=datetime.now(UTC) + timedelta(minutes=1))[0].new == 1
    assert q.groups.reset("east", topic, to=just_now)[0].new == 0
    assert list(q.dead_letters.list(topic, from_time=just_now, to_time=timedelta())) == []
"""


@pytest.fixture
def topic(q) -> str:
    return new_topic(q, partitions=1, durability="interval")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_naive_datetimes_are_local_time_everywhere(shared_broker: BrokerProcess, topic, zone):
    subprocess.run(
        [sys.executable, "-c", NEW_YORKER, shared_broker.address, topic],
        env=os.environ | {"TZ": zone},
        check=True,
        timeout=60,
    )


def test_timedeltas_are_durations(shared_broker: BrokerProcess, q, topic):
    described = q.topics.alter(
        topic, retention=timedelta(days=2), visibility=timedelta(seconds=45), ttl=timedelta(hours=1)
    )
    assert {name: described.settings[name] for name in ("retention", "visibility", "ttl")} == {
        "retention": "2d",
        "visibility": "45s",
        "ttl": "1h",
    }
    made = q.topics.create(f"{topic}-2", dedup_window=timedelta(minutes=3), backoff=timedelta(milliseconds=250))
    assert (made.settings["dedup_window"], made.settings["backoff"]) == ("3m", "250ms")
    assert q.publish(
        topic, b"x", delay=timedelta(hours=2), ttl=timedelta(days=1), timeout=timedelta(seconds=30)
    ).delayed
    placed = q.publish(topic, b"work")
    minute = timedelta(minutes=1)
    with q.producer(topic, linger=timedelta(0), timeout=minute, delivery_timeout=minute) as out:
        assert out.send(b"more").result(minute).offset == placed.offset + 1
        out.flush(minute)
    with q.work(topic, group="g", visibility=minute) as jobs:
        job = jobs.next_job()
        job.extend(timedelta(minutes=2))
        job.nack(timedelta(hours=1))
    q.groups.alter("g", visibility=timedelta(seconds=20))
    assert q.queues.depth(topic, "g").retrying == 1
    assert [m.value for m in q.read(topic, start=timedelta(hours=-1), end="latest")] == [b"work", b"more"]
    with q.transaction("timed", timeout=minute) as tx:
        tx.publish(topic, b"tx", ttl=minute)
    with quiver.connect(shared_broker.address, timeout=minute) as other:
        assert topic in other.topics.list()


def test_a_bad_duration_names_itself(q, topic):
    with pytest.raises(InvalidRequest, match=r"retention .*out of range"):
        q.topics.alter(topic, retention=timedelta(days=-1))
    with pytest.raises(InvalidRequest, match="delay"):
        q.publish(topic, b"x", delay=timedelta(seconds=-1))
    with q.producer(topic, linger="1m") as out, pytest.raises(RequestTimeout):
        out.send(b"x").result(timedelta(milliseconds=1))


def test_the_asynchronous_client_takes_them_too(shared_broker: BrokerProcess, topic):
    async def use() -> None:
        async with quiver.connect_async(shared_broker.address, timeout=timedelta(seconds=20)) as q:
            assert (await q.topics.alter(topic, retention=timedelta(hours=3))).settings["retention"] == "3h"
            await q.publish(topic, b"x", ttl=timedelta(hours=1), timeout=timedelta(seconds=20))
            assert [m.value async for m in q.read(topic, start=timedelta(hours=-1), end="latest")] == [b"x"]

    asyncio.run(use())


SIZES = {"retention_bytes": "10GiB", "segment_bytes": "64 KiB", "max_message_bytes": "10MB"}
BYTES = {"retention_bytes": 10 << 30, "segment_bytes": 64 << 10, "max_message_bytes": 10 * MIB}


def test_sizes_have_units_in_the_sdk(q, topic):
    made = q.topics.create(f"{topic}-2", **SIZES)
    assert BYTES.items() <= made.settings.items()
    assert q.topics.alter(topic, max_message_bytes="2k").settings["max_message_bytes"] == 2048
    with pytest.raises(InvalidSetting, match=r"segment_bytes.*64MiB"):
        q.topics.create(f"{topic}-3", segment_bytes="big")
    with q.producer(topic, batch_bytes="64KiB", max_buffer_bytes="1 MiB") as out:
        out.send(b"x")
    assert [m.value for m in q.read(topic, end="latest", max_bytes="1MiB")] == [b"x"]
    with q.work(topic, group="g", max_bytes="1MiB") as jobs, jobs.next_job() as job:
        assert job.value == b"x"
    with pytest.raises(InvalidRequest, match="max_bytes '1' is out of range"):
        q.read(topic, max_bytes="1")


def test_sizes_have_units_over_http(shared_broker: BrokerProcess, topic):
    with httpx.Client(base_url=shared_broker.http) as http:
        name = f"{topic}-2"
        assert http.post("/topics", json={"name": name, **SIZES}).status_code == 201
        assert BYTES.items() <= http.get(f"/topics/{name}").json()["config"].items()
        assert (
            http.patch(f"/topics/{name}", json={"segment_bytes": "1MiB", "retention_bytes": "none"}).status_code
            == 200
        )
        config = http.get(f"/topics/{name}").json()["config"]
        assert (config["segment_bytes"], config["retention_bytes"]) == (MIB, None)
        assert http.post("/topics", json={"name": f"{topic}-3", "segment_bytes": "1 lot"}).status_code == 400


def test_sizes_have_units_on_the_command_line(shared_broker: BrokerProcess, q, topic):
    cli = Cli(shared_broker.address)
    cli("topic", "create", f"{topic}-2", "--segment-bytes", "64 KiB", "--retention-bytes", "10GiB")
    cli("topic", "alter", f"{topic}-2", "--max-message-bytes", "10MB")
    assert BYTES.items() <= q.topics.describe(f"{topic}-2").settings.items()


def test_sizes_have_units_in_the_configuration(start_broker, tmp_path):
    file = tmp_path / "quiver.toml"
    file.write_text('[topic]\nsegment_bytes = "64 KiB"\n')
    broker = start_broker(
        "--config",
        str(file),
        "--topic",
        "retention_bytes=10GiB",
        environment={"QUIVER_TOPIC_MAX_MESSAGE_BYTES": "10MB"},
    )
    with quiver.connect(broker.address) as q:
        assert BYTES.items() <= q.topics.create("t").settings.items()
