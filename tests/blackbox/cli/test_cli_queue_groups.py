"""`quiver group` with queue groups, against a running broker."""

import json
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli


@pytest.fixture
def cli(shared_broker: BrokerProcess) -> Cli:
    """Of five messages two are leased; one of these is given back for later."""
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("emails", partitions=1)
        for number in range(5):
            q.publish("emails", b"%d" % number)
    body = {"group": "senders", "consumer": "me", "max_messages": 2}
    status, answer = shared_broker.request("POST", "/topics/emails/receive", body)
    assert (status, len(answer["messages"])) == (200, 2)
    nack = {"receipt_handle": answer["messages"][1]["receipt_handle"], "delay": "1h"}
    assert shared_broker.request("POST", "/messages/nack", nack)[0] == 200
    return Cli(shared_broker.address)


def shown(cli: Cli, *words: str) -> Any:
    return json.loads(cli("group", *words, "-o", "json").stdout)


def test_the_life_of_a_queue_group(cli: Cli) -> None:
    [listed] = shown(cli, "list")
    assert listed == {
        "id": "senders",
        "kind": "queue",
        "state": "stable",
        "members": 1,
        "generation": 0,
        "topics": ["emails"],
        "lag": 3,
        "leased": 1,
        "retrying": 1,
    }
    described = shown(cli, "describe", "senders")
    assert [member["id"] for member in described["members"]] == ["me"]
    assert [(part["committed_offset"], part["end_offset"], part["lag"]) for part in described["partitions"]] == [
        (0, 5, 3)
    ]
    assert b"senders" in cli("group", "describe", "senders").stdout

    changed = shown(cli, "alter", "senders", "--visibility", "5m", "--max-attempts", "9")
    assert (changed["visibility"], changed["max_attempts"]) == ("5m", 9)
    changed = shown(cli, "alter", "senders", "--visibility", "default")
    assert "visibility" not in changed
    refused = cli("group", "alter", "senders", "--max-unacked", "0", fails=True)
    assert b"max_unacked" in refused.stderr
    assert b"nothing to change" in cli("group", "alter", "senders", fails=True).stderr

    reset = shown(cli, "reset", "senders", "--topic", "emails", "--to", "4")
    assert reset["partitions"] == {"0": {"old": 0, "new": 4}}
    assert shown(cli, "list")[0]["lag"] == 1
    cli("group", "delete", "senders", "--yes")
    assert shown(cli, "list") == []
