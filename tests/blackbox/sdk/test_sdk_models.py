"""Dataclasses, msgspec structs and pydantic models as messages, and back."""

from dataclasses import dataclass
from datetime import datetime

import msgspec
import pydantic
import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidRequest


@dataclass
class Address:
    city: str


@dataclass
class PlainOrder:
    id: int
    ship_to: Address


class StructOrder(msgspec.Struct):
    id: int
    ship_to: Address


class ModelOrder(pydantic.BaseModel):
    id: int
    ship_to: Address
    at: datetime | None = None


KINDS = [PlainOrder, StructOrder, ModelOrder]


@pytest.fixture
def topic(q) -> str:
    return new_topic(q, partitions=1, durability="interval")


@pytest.mark.parametrize("kind", KINDS)
def test_an_order_is_published_and_read_back_as_every_kind(q, topic, kind):
    order = kind(id=7, ship_to=Address("Ulm"))
    q.publish(topic, order)
    with q.producer(topic) as out:
        out.send(order)
        out.send_many([order, order])
    with q.transaction() as tx:
        tx.publish(topic, order)
    messages = list(q.read(topic, end="latest"))
    assert len(messages) == 5
    assert [message.json(type=kind) for message in messages] == [order] * 5
    for other in KINDS:
        read = messages[0].json(type=other)
        assert type(read) is other
        assert (read.id, read.ship_to) == (7, Address("Ulm"))
    assert messages[0].json()["ship_to"] == {"city": "Ulm"}


def test_models_inside_of_other_values(q, topic):
    moment = datetime(2026, 1, 31, 12, 30)
    order = ModelOrder(id=1, ship_to=Address("Ulm"), at=moment)
    q.publish(topic, {"orders": [order], "first": order})
    [message] = q.read(topic, end="latest")
    assert message.json()["first"]["at"] == "2026-01-31T12:30:00"
    q.publish(topic, [order, order])
    *_, message = q.read(topic, end="latest")
    assert message.json(list[ModelOrder]) == [order, order]


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_another_shape_says_where_and_why(q, topic, kind):
    q.publish(topic, {"id": "seven", "ship_to": {"city": "Ulm"}})
    q.publish(topic, b"not JSON")
    q.publish(topic, None, key="k")
    wrong, text, tombstone = q.read(topic, end="latest")
    with pytest.raises(InvalidRequest, match=rf"{topic}-0 offset 0 is not a {kind.__name__} in JSON: (.|\n)*int"):
        wrong.json(type=kind)
    with pytest.raises(InvalidRequest, match=f"{topic}-0 offset 1 is not a {kind.__name__} in JSON"):
        text.json(type=kind)
    with pytest.raises(InvalidRequest, match=f"{topic}-0 offset 1 is not JSON"):
        text.json()
    with pytest.raises(InvalidRequest, match="tombstone"):
        tombstone.json(type=kind)


def test_jobs_and_schedules_have_them_too(q, topic):
    order = ModelOrder(id=1, ship_to=Address("Ulm"))
    q.schedules.add("@every 1h", topic, order, name=f"s-{topic}")
    q.schedules.run(f"s-{topic}")
    with q.work(topic, group="g") as jobs, jobs.next_job() as job:
        assert job.json(type=ModelOrder) == order
    q.schedules.remove(f"s-{topic}")


def test_what_has_no_json_is_refused(q, topic):
    with pytest.raises(
        InvalidRequest, match=r"object cannot be encoded as JSON: there is no JSON for objects of type object"
    ):
        q.publish(topic, object())
    with pytest.raises(InvalidRequest, match="type set_iterator"):
        q.publish(topic, {"x": iter({1})})


async def test_the_asynchronous_client(shared_broker: BrokerProcess, topic):
    q = await quiver.connect_async(shared_broker.address)
    try:
        order = StructOrder(1, Address("Ulm"))
        await q.publish(topic, order)
        assert [m.json(type=StructOrder) async for m in q.read(topic, end="latest")] == [order]
        async with q.work(topic, group="g") as jobs:
            job = await jobs.next_job()
            async with job:
                assert job.json(type=PlainOrder) == PlainOrder(1, Address("Ulm"))
    finally:
        await q.close()


async def test_waiting_for_a_broker_that_is_not_there_raises():
    with pytest.raises(quiver.errors.ConnectionLost):
        await quiver.connect_async("127.0.0.1:1", timeout=1)
