"""Pausing a queue group through the shipped program."""

from collections.abc import Callable

import quiver
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli


def test_a_pause_outlives_a_kill(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    path = "/topics/emails/queues/senders"
    with quiver.connect(broker.address) as q:
        q.topics.create("emails", partitions=1)
        for n in range(3):
            q.publish("emails", {"n": n})
        assert broker.request("POST", f"{path}/pause")[0] == 404, "the group has not begun"
        body = {"group": "senders", "consumer": "me", "max_messages": 1}
        [held] = broker.request("POST", "/topics/emails/receive", body)[1]["messages"]
        status, shown = broker.request("POST", f"{path}/pause", {"reason": "a move"})
        assert (status, shown["pause_reason"], shown["leased"], shown["ready"]) == (200, "a move", 1, 2)
        assert shown["paused_since"]
        leases = broker.request("GET", f"{path}/leases")[1]
        assert [(lease["offset"], lease["consumer"], lease["attempt"]) for lease in leases["leases"]] == [
            (0, "me", 1)
        ]
        assert leases["leases"][0]["receipt_handle"] == held["receipt_handle"]
        assert leases["blocked_keys"] == []
        assert broker.request("POST", "/messages/ack", {"receipt_handle": held["receipt_handle"]})[0] == 200
    broker.restart(kill=True)
    assert broker.request("POST", "/topics/emails/receive", body)[1]["messages"] == []
    cli = Cli(broker.address)
    cli("group", "resume", "senders", "--topic", "emails")
    assert len(broker.request("POST", "/topics/emails/receive", body)[1]["messages"]) == 1
    cli("group", "pause", "senders", "--topic", "emails", "--reason", "again")
    with quiver.connect(broker.address) as q:
        assert q.queues.depth("emails", "senders").pause_reason == "again"
        q.queues.resume("emails", "senders")
        assert q.queues.depth("emails", "senders").paused_since_ms is None
