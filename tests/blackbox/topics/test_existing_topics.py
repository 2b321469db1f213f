"""A program that makes its topics at every start: `exist_ok`, on every surface."""

import asyncio
import json
import logging
import uuid

import httpx
import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def test_an_existing_topic_stays_as_it_is(shared_broker: BrokerProcess, topic: str, caplog):
    with quiver.connect(shared_broker.address) as q:
        first = q.topics.create(topic, partitions=2, retention="1h", exist_ok=True)
        q.publish(topic, b"kept")
        again = q.topics.create(topic, partitions=2, retention="60m", exist_ok=True)
        assert again.settings == first.settings
        assert not caplog.records, "the same settings in other words are the same"
        q.topics.create(topic, partitions=6, retention=None, durability="fsync", exist_ok=True)
        assert q.topics.describe(topic).settings == first.settings
        assert [message.value for message in q.read(topic, end="latest")] == [b"kept"]
    (record,) = caplog.records
    assert (record.levelno, record.name.split(".")[0]) == (logging.WARNING, "quiver")
    assert "partitions is 2, not 6, retention is 1h, not none" in record.getMessage()


def test_what_is_wrong_stays_wrong(shared_broker: BrokerProcess, topic: str):
    with quiver.connect(shared_broker.address) as q:
        q.topics.create(topic)
        with pytest.raises(quiver.errors.TopicExists):
            q.topics.create(topic)
        with pytest.raises(quiver.errors.InvalidSetting):
            q.topics.create(topic, partitions=0, exist_ok=True)
        with pytest.raises(quiver.errors.InvalidName):
            q.topics.create("a/b", exist_ok=True)


async def test_many_may_create_it_at_once(shared_broker: BrokerProcess, topic: str):
    async with quiver.connect_async(shared_broker.address) as q:
        made = await asyncio.gather(*(q.topics.create(topic, partitions=2, exist_ok=True) for _ in range(8)))
        assert {len(each.offsets) for each in made} == {2}


def test_the_command(shared_broker: BrokerProcess, topic: str):
    cli = Cli(shared_broker.address)
    options = ("topic", "create", topic, "--if-not-exists", "-o", "json")
    made = cli(*options, "--partitions", "2")
    assert json.loads(made.stdout)["created"] is True
    again = cli(*options, "--partitions", "3")
    assert (json.loads(again.stdout)["created"], json.loads(again.stdout)["partitions"]) == (False, 2)
    assert again.stderr.decode() == f"quiver: topic {topic} exists and stays as it is: partitions is 2, not 3\n"


def test_over_http(shared_broker: BrokerProcess, topic: str):
    body = {"name": topic, "partitions": 2, "exist_ok": True}
    with httpx.Client(base_url=shared_broker.http) as http:
        assert http.post("/topics", json=body).status_code == 201
        same = http.post("/topics", json=body)
        assert (same.status_code, same.json()) == (
            200,
            {"name": topic, "partitions": 2, "num_partitions": 2, "created": False},
        )
        other = http.post("/topics", json=body | {"partitions": 3, "ttl": "1h"})
        assert (other.status_code, other.json()["differs"]) == (
            200,
            ["partitions is 2, not 3", "ttl is none, not 1h"],
        )
        assert http.post("/topics", json={"name": topic}).status_code == 409
