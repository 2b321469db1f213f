"""What a reader has missed: messages that were removed before it came, and not offsets that nobody ever used."""

import quiver
from blackbox.processes.broker_process import BrokerProcess


def test_the_hole_that_a_kill_leaves_in_an_interval_topic_is_no_loss(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1, durability="interval")
        for number in range(10):
            q.publish("orders", b"%d" % number)
    broker.restart(kill=True)
    with quiver.connect(broker.address) as q:
        assert q.publish("orders", b"after the hole").offset > 1_000
        assert broker.request("POST", "/topics/orders/purge")[0] == 200
        q.publish("orders", b"last")
        for start, lost in ((3, 8), (10, 1), (500, 1)):
            with q.read("orders", start=start, end="latest") as reader:
                assert [message.value for message in reader] == [b"last"]
                assert reader.lost_count == lost
        received = broker.request("POST", "/topics/orders/receive", {"group": "g"})[1]["messages"]
        assert [message["value"] for message in received] == ["last"]
