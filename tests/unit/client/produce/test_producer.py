"""The synchronous producer against a broker that misbehaves on request."""

import threading

import pyarrow as pa
import pytest

import quiver
from quiver.client import Client
from quiver.model.errors import (
    BufferFull,
    Closed,
    DiskFull,
    InvalidFrame,
    InvalidRequest,
    MessageTooLarge,
    PartitionNotFound,
    RequestTimeout,
    TopicNotFound,
)
from quiver.protocol.messages import Failure, InitProducer, Produce
from quiver.records.read import open_frame
from unit.client.fake_native_broker import FakeBroker


def first(times: int, fault, kind=Produce):
    """A fault for the first requests of a kind."""
    left = [times]

    def choose(request):
        if isinstance(request, kind) and left[0] > 0:
            left[0] -= 1
            return fault
        return None

    return choose


def send_each(out, values) -> None:
    for value in values:
        out.send(value)


def test_send_returns_futures_with_the_place_of_each_message(q, broker):
    with q.producer("single", linger="1ms") as out:
        futures = [out.send(b"%d" % n) for n in range(2000)]
        places = [future.result(10) for future in futures]
    assert [(place.partition, place.offset) for place in places] == [(0, n) for n in range(2000)]
    assert broker.topics["single"].values() == [b"%d" % n for n in range(2000)]


def test_keys_decide_the_partition(q, broker):
    with q.producer("orders") as out:
        futures = {n: out.send(b"%d" % n, key=f"k{n % 10}") for n in range(1000)}
    for n, future in futures.items():
        _, partition, offset = future.result()
        assert broker.topics["orders"].partitions[partition].values()[offset] == b"%d" % n
    assert all(partition.end for partition in broker.topics["orders"].partitions)


def test_values_of_every_kind_and_all_options(q, broker):
    with q.producer("single", linger="1m") as out:
        out.send({"id": 1}, key="k", headers={"source": "web", "raw": b"\x00"}, timestamp=1000, ttl="1h")
        out.send("text", priority="high")
        out.send(None, b"k")
        out.send(bytearray(b"array"), timestamp="2026-01-31T12:00:00Z")
    frames = [open_frame(frame) for frame in broker.topics["single"].partitions[0].frames]
    by_priority = {frame.header.priority: frame for frame in frames}
    normal = by_priority[2]
    assert by_priority[1].values() == [b"text"]
    assert normal.values() == [b'{"id":1}', None, b"array"]
    assert normal.keys() == [b"k", b"k", None]
    assert normal.headers()[0] == {"source": b"web", "raw": b"\x00"}
    assert normal.timestamps()[0] == 1000
    assert normal.expires_at_ms()[0] is not None


def test_send_many_takes_lists_and_iterators_in_order(q, broker):
    with q.producer("single", batch_bytes=1000) as out:
        out.send(b"before")
        bulk = out.send_many(b"%d" % n for n in range(1000))
        out.send(b"after")
    assert broker.topics["single"].values() == [b"before", *(b"%d" % n for n in range(1000)), b"after"]
    spans = bulk.result()
    assert sum(span.message_count for span in spans) == bulk.count == 1000
    assert spans[0].offset == 1
    assert len(spans) > 1


def test_send_many_with_keys_headers_and_objects(q, broker):
    with q.producer("orders") as out:
        out.send_many([{"n": 1}, "two", b"three", None], keys=["a", None, b"c", "a"], headers={"h": "x"})
    assert sorted(map(str, broker.topics["orders"].values())) == sorted(
        map(str, [b'{"n":1}', b"two", b"three", None])
    )
    headers = [h for p in broker.topics["orders"].partitions for f in p.frames for h in open_frame(f).headers()]
    assert headers == [{"h": b"x"}] * 4


def test_send_arrow_takes_tables(q, broker):
    table = pa.table({"value": [b"a", b"b"], "key": ["k", "k"], "timestamp": pa.array([5, 6], pa.int64())})
    with q.producer("orders") as out:
        spans = out.send_arrow(table).result(10)
    assert [span.message_count for span in spans] == [2]
    frame = open_frame(broker.topics["orders"].partitions[spans[0].partition].frames[0])
    assert (frame.values(), frame.timestamps()) == ([b"a", b"b"], [5, 6])


@pytest.mark.parametrize("fault", ["drop", "drop after"])
def test_a_lost_connection_doubles_and_loses_nothing(q, broker, fault):
    broker.fault = first(3, fault)
    with q.producer("single", linger="1ms", batch_messages=50) as out:
        futures = [out.send(b"%d" % n) for n in range(1000)]
        assert [future.result(20).offset for future in futures] == list(range(1000))
    assert broker.topics["single"].values() == [b"%d" % n for n in range(1000)]


def test_a_refusal_that_may_pass_is_tried_again_in_order(q, broker):
    broker.fault = first(5, Failure("disk_full", "no room", True))
    with q.producer("single", batch_messages=10) as out:
        for n in range(200):
            out.send(b"%d" % n)
    assert broker.topics["single"].values() == [b"%d" % n for n in range(200)]


def test_an_expired_producer_takes_a_new_epoch(q, broker):
    with q.producer("single") as out:
        out.send(b"a").result(10)
        broker.topics["single"].partitions[0].producers = type(broker.topics["single"].partitions[0].producers)()
        assert out.send(b"b").result(10).offset == 1
    assert broker.topics["single"].values() == [b"a", b"b"]
    assert [request.producer_id for request in broker.requests_of(InitProducer)] == [-1, 101]


def test_a_batch_refused_for_good_fails_alone(q, broker):
    broker.fault = first(1, Failure("invalid_frame", "no", False))
    with q.producer("single", batch_messages=1, linger="1ms") as out:
        futures = [out.send(b"%d" % n) for n in range(10)]
        with pytest.raises(InvalidFrame):
            futures[0].result(10)
        assert [future.result(10).offset for future in futures[1:]] == list(range(9))


def test_keys_are_hashed_again_when_partitions_are_added(q, broker):
    with q.producer("orders") as out:
        out.send(b"warm", key="x").result(10)
        broker.grow("orders", 11)
        futures = {n: out.send(b"%d" % n, key=f"k{n}") for n in range(500)}
        for n, future in futures.items():
            _, partition, offset = future.result(10)
            assert broker.topics["orders"].partitions[partition].values()[offset] == b"%d" % n
    assert len(broker.topics["orders"].values()) == 501
    assert all(partition.end for partition in broker.topics["orders"].partitions[3:])


def test_a_batch_that_may_be_stored_is_not_hashed_again(q, broker):
    """The answer is lost, then the topic grows: hashing again would store the batch twice."""

    def lose_the_answer_and_grow(request):
        if isinstance(request, Produce) and len(broker.topics["orders"].partitions) == 3:
            broker.fault = lambda _: None
            threading.Timer(0, broker.grow, ("orders", 9)).run()
            return "drop after" if request.partition_count == 9 else None
        return None

    with q.producer("orders") as out:
        out.send(b"warm").result(10)
        broker.fault = first(1, "drop after")
        future = out.send(b"once", key="k")
        future.result(10)
        broker.fault = lose_the_answer_and_grow
        out.send(b"again", key="k").result(10)
    assert sorted(broker.topics["orders"].values()) == [b"again", b"once", b"warm"]


def test_a_topic_that_was_created_again_is_found(q, broker):
    q.publish("single", b"old")
    broker.recreate("single")
    assert q.publish("single", b"new").offset == 0
    assert broker.topics["single"].values() == [b"new"]


def test_a_topic_that_is_gone_fails_the_message(q, broker):
    q.publish("single", b"old")
    broker.topics.pop("single")
    with pytest.raises(TopicNotFound):
        q.publish("single", b"new")


def test_flush_raises_what_no_future_has_shown(q, broker):
    broker.fault = first(1, Failure("invalid_frame", "no", False))
    out = q.producer("single")
    out.send(b"a")
    with pytest.raises(InvalidFrame):
        out.flush(10)
    out.flush(10)
    out.close()


def test_an_error_that_was_seen_is_not_raised_again(q, broker):
    broker.fault = first(1, Failure("invalid_frame", "no", False))
    with q.producer("single") as out:
        future = out.send(b"a")
        with pytest.raises(InvalidFrame):
            future.result(10)
        with pytest.raises(InvalidFrame):
            future.result(10)


def test_callbacks_hear_of_every_outcome(q, broker):
    heard = []
    with q.producer("single") as out:
        out.send(b"a").add_done_callback(lambda future: heard.append(future.result().offset))
        out.send_many([b"b", b"c"]).add_done_callback(lambda bulk: heard.append(bulk.count))
    assert heard == [0, 2]


def test_a_message_fails_when_its_time_is_over(q, broker):
    broker.fault = lambda request: Failure("disk_full", "no room", True) if isinstance(request, Produce) else None
    out = q.producer("single", delivery_timeout="200ms")
    with pytest.raises(DiskFull):
        out.send(b"a").result(10)
    out.close()


def test_result_gives_up_after_its_timeout(q, broker):
    broker.fault = lambda request: "ignore" if isinstance(request, Produce) else None
    out = q.producer("single")
    future = out.send(b"a")
    with pytest.raises(RequestTimeout):
        future.result(0.05)
    assert not future.done
    with pytest.raises(RequestTimeout):
        out.close(timeout=0.05)
    with pytest.raises(Closed):
        future.result(5)


def test_a_full_buffer_holds_the_sender_back_and_then_refuses(q, broker):
    broker.fault = lambda request: "ignore" if isinstance(request, Produce) else None
    out = q.producer("single", max_buffer_bytes=100_000, timeout="100ms", batch_bytes=10_000)
    with pytest.raises(BufferFull):
        send_each(out, [b"x" * 1000] * 200)
    with pytest.raises(BufferFull):
        out.send_many([b"x" * 1000] * 200)
    with pytest.raises(RequestTimeout):
        out.close(timeout=0.01)


def test_a_sender_goes_on_when_there_is_room_again(q, broker):
    with q.producer("single", max_buffer_bytes=64 * 1024, batch_bytes=8 * 1024) as out:
        for n in range(3000):
            out.send(b"%d" % n + b"x" * 200)
    assert len(broker.topics["single"].values()) == 3000


def test_acks_none_asks_for_no_answer(q, broker):
    with q.producer("single", acks="none") as out:
        assert out.send(b"a").result(10).offset == -1
    assert q.publish("single", b"b").offset == 1
    assert broker.requests_of(Produce)[0].acks == 0
    assert open_frame(broker.topics["single"].partitions[0].frames[0]).header.producer_id == -1


def test_compression(q, broker):
    with q.producer("single", compression="zstd") as out:
        out.send_many([b"a" * 1000] * 100)
    frame = broker.topics["single"].partitions[0].frames[0]
    assert len(frame) < 10_000
    assert open_frame(frame).values() == [b"a" * 1000] * 100


def test_bad_input_is_refused_at_once(q):
    with q.producer("single") as out:
        for error, arguments, options in (
            (MessageTooLarge, (b"x" * (1 << 20), "k"), {}),
            (InvalidRequest, (object(),), {}),
            (InvalidRequest, (b"v", 7), {}),
            (InvalidRequest, (b"v",), {"partition": -1}),
            (InvalidRequest, (b"v",), {"priority": "urgent"}),
            (InvalidRequest, (b"v",), {"headers": {"a": 1}}),
            (InvalidRequest, (b"v",), {"delay": "soon"}),
            (InvalidRequest, (b"v",), {"delay": "5m", "deliver_at": 1000}),
            (TypeError, (b"v",), {"colour": "red"}),
        ):
            with pytest.raises(error):
                out.send(*arguments, **options)
        with pytest.raises(InvalidRequest):
            out.send_many("text")
        with pytest.raises(InvalidRequest):
            out.send_many([b"a", b"b"], keys=[b"a"])
        with pytest.raises(MessageTooLarge):
            out.send_many([b"x" * (1 << 20 | 1)])
        with pytest.raises(PartitionNotFound):
            out.send(b"v", partition=1).result(10)


def test_options_are_checked(q):
    for options in ({"acks": "two"}, {"compression": "rar"}, {"batch_bytes": 0}, {"linger": "soon"}):
        with pytest.raises(InvalidRequest):
            q.producer("single", **options)


def test_a_missing_topic_is_told_when_the_producer_is_entered(q):
    with pytest.raises(TopicNotFound), q.producer("nowhere"):
        pass
    with pytest.raises(TopicNotFound):
        q.publish("nowhere", b"x")


def test_a_closed_producer_takes_nothing(q):
    out = q.producer("single")
    out.send(b"a")
    out.close()
    out.close()
    for send in (lambda: out.send(b"b"), lambda: out.send_many([b"b"])):
        with pytest.raises(Closed):
            send()


def test_an_exception_in_the_block_is_not_hidden_by_the_producer(q, broker):
    broker.fault = first(1, Failure("invalid_frame", "no", False))
    with pytest.raises(KeyError), q.producer("single") as out:
        {}[out.send(b"a")]


def test_threads_share_a_producer_and_keep_their_order(q, broker):
    results: dict[int, list] = {}

    def work(number: int) -> None:
        futures = [out.send(b"%d:%d" % (number, n)) for n in range(3000)]
        results[number] = [future.result(20) for future in futures]

    with q.producer("single", linger="1ms", batch_messages=500) as out:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stored = broker.topics["single"].values()
    assert len(stored) == 12_000
    for number, places in results.items():
        assert [stored[place.offset] for place in places] == [b"%d:%d" % (number, n) for n in range(3000)]
        assert [place.offset for place in places] == sorted(place.offset for place in places)


def test_publishers_of_many_threads_share_frames(q: Client, broker):
    places = []

    def work(number: int) -> None:
        places.extend(q.publish("single", b"%d" % n).offset for n in range(100))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == list(range(800))


def test_a_callback_that_fails_harms_nobody(q, broker):
    with q.producer("single") as out:
        out.send(b"a").add_done_callback(lambda future: 1 / 0)
        out.flush(10)
        assert out.send(b"b").result(10).offset == 1
    assert len(broker.requests_of(InitProducer)) == 1


def test_partitions_that_were_added_can_be_named(q, broker):
    with q.producer("single") as out:
        out.send(b"a", partition=0).result(10)
        broker.grow("single", 2)
        assert out.send(b"b", partition=1).result(10).partition == 1


def test_closing_the_client_flushes_its_producers_and_tells_of_failures(broker):
    q = quiver.connect(broker.address)
    out = q.producer("single", linger="1h")
    out.send(b"a")
    q.close()
    assert broker.topics["single"].values() == [b"a"]
    q = quiver.connect(broker.address)
    broker.fault = first(1, Failure("invalid_frame", "no", False))
    q.producer("single").send(b"b")
    with pytest.raises(InvalidFrame):
        q.close()


def test_messages_without_a_byte_are_settled_like_others():
    with FakeBroker(single=1) as broker, quiver.connect(broker.address) as q:
        with q.producer("single", linger=0) as out:
            futures = [out.send(None), out.send(b"")]
            out.flush(10)
        assert [future.result(10).offset for future in futures] == [0, 1]
