"""`quiver dlq` against the shipped broker."""

import json
import re
import shlex
from pathlib import Path

from blackbox.callers.failing_work import FailingWork
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dead-letters.md"


def test_list_and_show(shared_broker: BrokerProcess, cli: Cli) -> None:
    work = FailingWork(shared_broker, "shown", partitions=1)
    work.kill_off("hello", key="k", headers={"a": "b"}, reason="not an\naddress " + "x" * 100)
    work.kill_off("more", "and more", reason="no")
    work.wait_for_dead_letters(3)
    lines = cli("dlq", "list", "shown", "--limit", "2").stdout.decode().splitlines()
    assert lines[0].split() == ["ID", "DIED", "AT", "REASON", "GROUP", "ATTEMPTS", "ORIGINAL", "KEY", "LAST", "ERROR"]
    assert lines[1].startswith("0:0 ")
    assert re.search(r"rejected +workers +1 +shown-0@0 +k +not an", lines[1])
    assert len(lines) == 5
    found = re.fullmatch(r"2 of 3; continue with --after (\S+)", lines[-1])
    assert found is not None
    rest = json.loads(cli("dlq", "list", "shown", "--after", found[1], "-o", "json").stdout)
    assert [dead_letter["value"] for dead_letter in rest["messages"]] == ["and more"]
    assert (rest["total"], rest["next"]) == (3, None)
    newest = json.loads(cli("dlq", "list", "shown", "--newest", "--contains", "no", "-o", "json").stdout)
    assert [dead_letter["id"] for dead_letter in newest["messages"]] == ["0:2", "0:1", "0:0"]
    [dead_letter] = json.loads(cli("dlq", "show", "shown", "0:0", "-o", "json").stdout)
    assert (dead_letter["value"], dead_letter["key"], dead_letter["headers"]) == ("hello", "k", {"a": "b"})
    assert dead_letter["original"]["topic"] == "shown"
    assert "original_offset" in cli("dlq", "show", "shown", "0:0", "0:1").stdout.decode()
    assert b"there is no dead letter '0:9'" in cli("dlq", "show", "shown", "0:9", fails=True).stderr


def test_redrive_and_purge(shared_broker: BrokerProcess, cli: Cli) -> None:
    work = FailingWork(shared_broker, "moved", partitions=1)
    work.kill_off("a", "b", "c", "d", key="k")
    work.wait_for_dead_letters(4)
    assert cli("dlq", "redrive", "moved", "--dry-run").stdout == b"4 would be redriven\n"
    assert cli("dlq", "redrive", "moved", "0:0", "0:7").stdout == b"1 redriven\n0:7 was not found\n"
    answer = json.loads(cli("dlq", "purge", "moved", "--contains", "b", "-o", "json").stdout)
    assert answer == {"purged": 1, "dry_run": False, "ids": ["0:1"], "not_found": []}
    assert b"--all" in cli("dlq", "purge", "moved", fails=True).stderr
    assert cli("dlq", "redrive", "moved", "--key", "k", "--limit", "1").stdout == b"1 redriven\n"
    assert cli("dlq", "purge", "moved", "--all", "--yes").stdout == b"1 purged\n"
    assert [message["value"] for message in work.receive(2)] == ["a", "c"]


def test_the_commands_of_the_documents(shared_broker: BrokerProcess, cli: Cli) -> None:
    [block] = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    work = FailingWork(shared_broker, "orders", partitions=1)
    work.kill_off(*[f"m{number}" for number in range(50)], reason="a timeout")
    work.wait_for_dead_letters(50)
    said = [cli(*shlex.split(line, comments=True)[1:]).stdout.decode() for line in block.splitlines()]
    assert said[0].splitlines() == ["ID  DIED AT  REASON  GROUP  ATTEMPTS  ORIGINAL  KEY  LAST ERROR"]
    assert "m42" in said[1]
    assert said[2:] == ["50 would be redriven\n", "2 redriven\n", "48 redriven\n", "0 purged\n"]
