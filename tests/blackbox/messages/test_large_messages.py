"""Messages near the frame limit, through HTTP and the SDK: they do no harm to their neighbours."""

from collections.abc import Callable

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidSetting, MessageTooLarge

KIB = 1024
LIMITS = ("--max-frame-bytes", "256KiB", "--max-message-bytes", "64KiB")


def test_neighbours_of_a_large_message_are_published_and_so_is_what_comes_later(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker(*LIMITS)
    broker.request("POST", "/topics", {"name": "big", "partitions": 1, "max_message_bytes": 256 * KIB})
    values = ["s" * 200_000, "B" * (256 * KIB - 1000), "C" * (256 * KIB), "D" * (256 * KIB + 1), "small"]
    for delay in ({}, {"delay": "1h"}):
        messages = [{"value": value, **delay} for value in values]
        status, answer = broker.request("POST", "/topics/big/messages", {"messages": messages})
        codes = [result.get("code") for result in answer["results"]]
        assert (status, codes) == (200, [None, None, "frame_too_large", "message_too_large", None]), delay
        for number in range(3):
            later = {"messages": [{"value": f"later {number}", **delay}]}
            status, answer = broker.request("POST", "/topics/big/messages", later)
            assert status == 200
            assert "error" not in answer["results"][0]
    assert broker.request("GET", "/topics/big")[1]["partition_offsets"]["0"]["latest"] == 6
    assert len(broker.request("GET", "/topics/big/delayed")[1]["messages"]) == 6


def test_the_frame_limit_caps_what_a_topic_may_ask_for(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with quiver.connect(broker.address) as q:
        with pytest.raises(InvalidSetting, match="max_frame_bytes"):
            q.topics.create("big", max_message_bytes=16 * KIB * KIB + 1)
        q.topics.create("big", partitions=1, max_message_bytes=16 * KIB * KIB)
    status, answer = broker.request("PATCH", "/topics/big", {"max_message_bytes": 17 * KIB * KIB})
    assert (status, answer["code"]) == (400, "invalid_setting")
    broker.terminate()

    smaller = start_broker(*LIMITS)
    with quiver.connect(smaller.address) as q:
        with pytest.raises(MessageTooLarge, match=str(256 * KIB)):
            q.publish("big", b"x" * (256 * KIB + 1))
        assert q.publish("big", b"x" * (250 * KIB)).offset == 0
    status, answer = smaller.request("POST", "/topics/big/messages", {"messages": [{"value": "x" * 300_000}]})
    assert answer["results"][0]["code"] == "message_too_large"
