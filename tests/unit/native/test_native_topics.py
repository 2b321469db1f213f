"""Every request of the protocol against a real broker on memory storage."""

from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker, BrokerSettings
from quiver.gateways.native.gateway import NativeGateway
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.protocol import messages as m
from quiver.protocol.packet import decode_response
from quiver.records.build import build_frame
from quiver.records.read import open_frame, split_frames
from quiver.storage.memory.storage import MemoryStorage
from unit.native.native_client import NativeClient, until


@pytest.fixture
async def client(request: pytest.FixtureRequest) -> AsyncIterator[NativeClient]:
    broker = Broker(MemoryStorage(), settings=getattr(request, "param", None))
    await broker.start()
    gateway = NativeGateway(broker)
    await gateway.start()
    client = await NativeClient.connect(gateway.port)
    await client.greet()
    yield client
    client.close()
    await until(lambda: gateway.counts.connections_open == 0)
    await gateway.stop()
    await broker.stop()


def frame_of(*values: bytes) -> bytes:
    return build_frame(list(values), timestamp_ms=1_700_000_000_000)


async def create(client: NativeClient, name: str = "orders", **settings: object) -> m.TopicDescription:
    response = await client.ask(m.CreateTopic(name, settings))
    assert isinstance(response, m.TopicDescription), response
    return response


async def test_topics_from_creation_to_deletion(client):
    topic = await create(client, partitions=2, retention="1h")
    assert (topic.name, topic.settings["retention"], topic.offsets) == ("orders", "1h", [(0, 0), (0, 0)])
    assert await client.ask(m.DescribeTopic("orders")) == topic
    metadata = await client.ask(m.GetMetadata(["orders", "nowhere"]))
    assert metadata == m.Metadata([m.TopicInfo(topic.id, "orders", 2, 1 << 20)], ["nowhere"])
    altered = await client.ask(m.AlterTopic("orders", {"max_message_bytes": 500}))
    assert altered.settings["max_message_bytes"] == 500
    assert (await client.ask(m.GetMetadata())).topics == [m.TopicInfo(topic.id, "orders", 2, 500)]
    assert len((await client.ask(m.AddPartitions("orders", 5))).offsets) == 5
    assert await client.ask(m.DeleteTopic("orders")) == m.Done()
    assert await client.ask(m.GetMetadata()) == m.Metadata([], [])


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (m.CreateTopic("a/b", {}), "invalid_name"),
        (m.CreateTopic("", {}), "invalid_name"),
        (m.CreateTopic("orders", {}), "topic_exists"),
        (m.CreateTopic("new", {"partitions": 0}), "invalid_setting"),
        (m.CreateTopic("new", {"colour": "red"}), "invalid_setting"),
        (m.DescribeTopic("nowhere"), "topic_not_found"),
        (m.AlterTopic("nowhere", {}), "topic_not_found"),
        (m.AddPartitions("orders", 1), "invalid_setting"),
        (m.AddPartitions("nowhere", 4), "topic_not_found"),
        (m.DeleteTopic("nowhere"), "topic_not_found"),
        (m.PurgeTopic("nowhere"), "topic_not_found"),
    ],
)
async def test_errors_of_the_catalogue(client, request_, code):
    await create(client)
    failure = await client.ask(request_)
    assert isinstance(failure, m.Failure), failure
    assert failure.code == code


async def test_frames_go_in_and_come_out_as_they_were(client):
    topic = await create(client, partitions=1)
    assert (await client.ask(m.Produce(topic.id, 0, 1), frame_of(b"a", b"b"))).base_offset == 0
    assert (await client.ask(m.Produce(topic.id, 0, 1), frame_of(b"c"))).base_offset == 2
    await client.send(m.Fetch([m.FetchPart(topic.id, 0, 0, 1 << 20), m.FetchPart(999, 0, 0, 1 << 20)]))
    packet = await client.packet()
    good, bad = decode_response(packet.message_bytes).parts
    assert (good.length, good.high_watermark, good.error) == (len(packet.payload), 3, None)
    assert (bad.length, bad.error.code) == (0, "topic_not_found")
    values = [open_frame(packet.payload, position).values() for position, _ in split_frames(packet.payload)]
    assert values == [[b"a", b"b"], [b"c"]]


async def test_bad_frames_and_places_are_refused(client):
    topic = await create(client, partitions=1)
    frame = frame_of(b"a")
    flipped = frame[:-9] + bytes([frame[-9] ^ 1]) + frame[-8:]
    for payload in (b"", b"junk", frame[:-1], frame + b"\0", flipped):
        assert (await client.ask(m.Produce(topic.id, 0, 1), payload)).code == "invalid_frame"
    assert (await client.ask(m.Produce(topic.id, 1, 0), frame)).code == "partition_not_found"
    assert (await client.ask(m.Produce(topic.id, -1, 0), frame)).code == "partition_not_found"
    assert (await client.ask(m.Produce(999, 0, 0), frame)).code == "topic_not_found"
    stale = await client.ask(m.Produce(topic.id, 0, 7), frame)
    assert (stale.code, stale.retryable) == ("stale_partition_count", True)
    assert (await client.ask(m.DescribeTopic("orders"))).offsets == [(0, 0)]


async def test_a_waiting_fetch_wakes_when_data_comes(client):
    topic = await create(client, partitions=1)
    await client.send(m.Fetch([m.FetchPart(topic.id, 0, 0, 1 << 20)], max_wait_ms=60_000), correlation=7)
    await client.send(m.Produce(topic.id, 0, 1), frame_of(b"news"), correlation=8)
    responses = dict([await client.response(), await client.response()])
    assert responses[7].parts[0].high_watermark == 1
    assert responses[8].base_offset == 0


async def test_an_empty_fetch_comes_back_after_its_wait(client):
    topic = await create(client, partitions=1)
    response = await client.ask(m.Fetch([m.FetchPart(topic.id, 0, 0, 1 << 20)], max_wait_ms=1))
    assert [(part.length, part.error) for part in response.parts] == [(0, None)]


async def test_offsets_by_position(client):
    topic = await create(client, partitions=1)
    await client.ask(m.Produce(topic.id, 0, 1), frame_of(b"a", b"b"))
    positions = [EARLIEST, LATEST, Position("offset", 1), Position("offset", 9), Position("time", 0)]
    response = await client.ask(m.ListOffsets([m.OffsetPart(topic.id, 0, position) for position in positions]))
    assert [found.offset for found in response.offsets] == [0, 2, 1, -1, 0]
    assert response.offsets[3].error.code == "offset_out_of_range"


async def test_producers_get_ids_and_epochs(client):
    first = await client.ask(m.InitProducer())
    second = await client.ask(m.InitProducer())
    assert (first.epoch, second.producer_id != first.producer_id) == (0, True)
    assert await client.ask(m.InitProducer(first.producer_id, 0)) == m.ProducerIdentity(first.producer_id, 1)


async def test_purge_removes_messages_and_keeps_offsets(client):
    topic = await create(client, partitions=1)
    await client.ask(m.Produce(topic.id, 0, 1), frame_of(b"a", b"b"))
    assert await client.ask(m.PurgeTopic("orders")) == m.Done()
    assert (await client.ask(m.DescribeTopic("orders"))).offsets == [(2, 2)]


@pytest.mark.parametrize("client", [BrokerSettings(auto_create=True)], indirect=True)
async def test_asking_for_a_topic_creates_it_where_that_is_allowed(client):
    metadata = await client.ask(m.GetMetadata(["fresh"]))
    assert [topic.name for topic in metadata.topics] == ["fresh"]
    assert (await client.ask(m.GetMetadata(["a/b"]))).code == "invalid_name"
