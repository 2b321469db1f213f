"""Messages past their time to live: left out and counted, whoever reads.

A time to live of zero is over when the message arrives, so no test waits for one.
"""

import httpx
import msgspec
import pytest

import quiver
from blackbox.callers.http_group import HttpGroup
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.cli_process import Cli

CONNECTED_SECONDS = 1.0
"""Long enough to have read what there is, also on a busy machine."""


@pytest.fixture
def topic(q) -> str:
    return new_topic(q, partitions=1, durability="interval")


def send(q, topic: str, text: str) -> None:
    """A message for each character, in one frame; those in capitals are past their time."""
    with q.producer(topic, linger="1h") as out:
        for character in text:
            out.send(character, ttl=0 if character.isupper() else "1h")


def text_of(messages) -> str:
    return b"".join(message.value for message in messages).decode()


def text_of_batches(batches) -> str:
    return b"".join(value for batch in batches for value in batch.column("value").to_pylist()).decode()


def test_readers_leave_them_out_and_count_them(q, topic):
    for text in ("AbCd", "EF", "g", "hI"):
        send(q, topic, text)
    reader = q.read(topic, end="latest")
    assert (text_of(reader), reader.expired_count) == ("bdgh", 5)
    assert reader.positions == {0: 9}
    reader = q.read(topic, start=1, end=6)
    assert (text_of(reader), reader.expired_count) == ("bd", 3)
    reader = q.read(topic, end="latest")
    assert (text_of_batches(reader.batches()), reader.expired_count) == ("bdgh", 5)
    reader = q.read(topic, end="latest", include_expired=True)
    assert (text_of(reader), reader.expired_count) == ("AbCdEFghI", 0)
    assert text_of_batches(q.read(topic, end="latest", include_expired=True).batches()) == "AbCdEFghI"


def test_a_topics_time_to_live_holds_as_it_is_set_now(q, topic):
    send(q, topic, "Ab")
    with q.producer(topic) as out:
        out.send_many([b"x", b"y"])
    q.topics.alter(topic, ttl=0)
    reader = q.read(topic, end="latest")
    assert (text_of(reader), reader.expired_count) == ("b", 3)  # its own time counts
    q.topics.alter(topic, ttl=None)
    assert text_of(q.read(topic, end="latest")) == "bxy"


@pytest.mark.parametrize("how", ["messages", "batches"])
def test_a_group_passes_over_them(q, topic, how):
    for text in ("AB", "Cde", "FG"):
        send(q, topic, text)
    with q.stream(topic, group=f"g-{topic}") as stream:
        if how == "messages":
            assert [next(iter(stream)).value, next(iter(stream)).value] == [b"d", b"e"]
        else:
            assert next(stream.batches()).column("value").to_pylist() == [b"d", b"e"]
        send(q, topic, "h")
        last = next(iter(stream)).value if how == "messages" else next(stream.batches()).column("value")[0].as_py()
        assert (last, stream.expired_count) == (b"h", 5)
    assert q.groups.describe(f"g-{topic}").partitions[0].committed == 8


def test_a_commit_of_the_last_live_message_leaves_the_rest_to_be_passed_over(q, topic):
    send(q, topic, "aB")
    group = f"g-{topic}"
    with q.stream(topic, group=group, auto_commit=False) as stream:
        next(iter(stream)).commit()
    assert q.groups.describe(group).partitions[0].committed == 1
    send(q, topic, "c")
    with q.stream(topic, group=group) as stream:
        assert (next(iter(stream)).value, stream.expired_count) == (b"c", 1)


def test_waiting_for_a_message_is_waiting_for_one_whose_time_is_not_over(q, topic):
    send(q, topic, "AB")
    reader = q.read(topic, timeout=CONNECTED_SECONDS)
    with pytest.raises(quiver.errors.MessageTimeout):
        next(iter(reader))
    assert reader.expired_count == 2
    with q.stream(topic, group=f"g-{topic}", timeout=CONNECTED_SECONDS) as stream:
        with pytest.raises(quiver.errors.MessageTimeout):
            next(iter(stream))
        assert (stream.expired_count, stream.positions) == (2, {(topic, 0): 2})
    assert q.groups.describe(f"g-{topic}").partitions[0].committed == 2


async def test_the_asynchronous_client(shared_broker: BrokerProcess, q, topic):
    send(q, topic, "AbC")
    async with quiver.connect_async(shared_broker.address) as client:
        reader = client.read(topic, end="latest")
        assert [message.value async for message in reader] == [b"b"]
        assert reader.expired_count == 2
        async with client.stream(topic, group=f"g-{topic}") as stream:
            async for message in stream:
                assert message.value == b"b"
                break


def test_pages_over_http(shared_broker: BrokerProcess, q, topic):
    for text in ("AbCd", "EF", "g", "hI"):
        send(q, topic, text)
    with httpx.Client(base_url=shared_broker.http) as http:

        def page(**query):
            answer = http.get(f"/topics/{topic}/partitions/0/messages", params=query).json()
            return "".join(m["value"] for m in answer["messages"]), answer["next_offset"], answer["expired"]

        assert page() == ("bdgh", 9, 5)
        assert page(limit=1) == ("b", 2, 1)
        assert page(limit=1, offset=2) == ("d", 4, 1)
        assert page(limit=2, offset=4) == ("gh", 8, 2)
        assert page(limit=2, offset=8) == ("", 9, 1)
        assert page(include_expired=True) == ("AbCdEFghI", 9, 0)


@pytest.mark.parametrize("media", ["application/json", "application/msgpack"])
def test_long_pages_over_http(shared_broker: BrokerProcess, q, topic, media):
    with q.producer(topic) as out:
        out.send_many([b"%d" % n for n in range(2_000)])
        out.send_many([b"%d" % n for n in range(2_000)], ttl=0)
    with httpx.Client(base_url=shared_broker.http, headers={"Accept": media}) as http:
        answer = http.get(f"/topics/{topic}/partitions/0/messages", params={"limit": 10_000})
        decode = msgspec.json.decode if media == "application/json" else msgspec.msgpack.decode
        page = decode(answer.content)
        assert (len(page["messages"]), page["next_offset"], page["expired"]) == (2_000, 4_000, 2_000)


def test_a_poll_passes_over_them(shared_broker: BrokerProcess, q, topic):
    send(q, topic, "AbC")
    group = HttpGroup(shared_broker, topic=topic)
    member = group.join()
    answer = group.poll(member)
    assert [message["value"] for message in answer["messages"]["0"]] == ["b"]
    group.commit(member, {0: 2})
    assert not group.poll(member)["messages"].get("0")
    wait_until(lambda: len(q.dead_letters.list(topic)) == 2, 20, "dead letters of what was past its time")
    assert {dead_letter.reason for dead_letter in q.dead_letters.list(topic)} == {"expired"}


def test_the_command_line(shared_broker: BrokerProcess, q, topic):
    send(q, topic, "AbC")
    cli = Cli(shared_broker.address)
    shown = cli("consume", topic)
    assert shown.stdout.split() == [b"b"]
    assert b"2 expired messages were left out" in shown.stderr
    assert cli("consume", topic, "--include-expired").stdout.split() == [b"A", b"b", b"C"]
    shown = cli("consume", topic, "--group", f"g-{topic}")
    assert shown.stdout.split() == [b"b"]
    assert b"2 expired messages were left out" in shown.stderr
    assert q.groups.describe(f"g-{topic}").partitions[0].committed == 3
    cli("consume", topic, "--group", f"g-{topic}", "--include-expired", fails=True)
