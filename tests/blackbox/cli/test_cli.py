"""Topics, errors and completion with the shipped command."""

import json
import subprocess
import sys
from typing import Any

import pytest
import yaml

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli, run_cli


@pytest.fixture
def topic(q: quiver.Client) -> str:
    return new_topic(q, partitions=2, durability="interval")


def described(cli: Cli, topic: str) -> Any:
    return json.loads(cli("topic", "describe", topic, "-o", "json").stdout)


def test_topics_live_from_create_to_delete(cli: Cli) -> None:
    created = cli("topic", "create", "life", "--partitions", "4", "--retention", "1h30m", "-o", "json")
    assert json.loads(created.stdout)["created"] is True
    listed = json.loads(cli("topic", "list", "--output", "json").stdout)
    assert {"name": "life", "partitions": 4}.items() <= next(row for row in listed if row["name"] == "life").items()
    details = described(cli, "life")
    assert details["config"]["retention"] == "1h30m"
    assert list(details["partition_offsets"]) == ["0", "1", "2", "3"]
    cli("topic", "alter", "life", "--partitions", "5", "--retention", "none")
    altered = described(cli, "life")
    assert altered["config"]["retention"] is None
    assert altered["partitions"] == 5
    deleted = cli("topic", "delete", "life", "--output", "yaml")
    assert yaml.safe_load(deleted.stdout) == [{"name": "life", "deleted": True}]
    assert b"life" not in cli("topic", "list").stdout


def test_the_same_listing_in_three_formats(cli: Cli, topic: str) -> None:
    as_json = json.loads(cli("topic", "list", "-o", "json").stdout)
    as_yaml = yaml.safe_load(cli("topic", "list", "-o", "yaml").stdout)
    assert as_json == as_yaml
    table = cli("topic", "list").stdout.decode().splitlines()
    assert table[0].split()[:2] == ["NAME", "PARTITIONS"]
    assert len(table) == len(as_json) + 1


def test_describe_shows_offsets_and_settings(cli: Cli, topic: str) -> None:
    cli("produce", topic, "a", "b", "c", "--partition", "1")
    details = described(cli, topic)
    assert details["partition_offsets"]["1"] == {"earliest": 0, "latest": 3}
    assert details["total_messages"] == 3
    assert b"durability" in cli("topic", "describe", topic).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topic", "describe", "nowhere"), ("nowhere", "topic create")),
        (("topic", "delete", "nowhere"), ("nowhere",)),
        (("topic", "create", "a/b"), ("a/b", "A-Z")),
        (("topic", "create", "x", "--partitions", "many", "--retention", "soon"), ("many", "soon")),
        (("topic", "alter", "nowhere"), ("nothing to change",)),
        (("produce", "nowhere", "hello"), ("nowhere",)),
        (("consume", "nowhere"), ("nowhere",)),
    ],
)
def test_errors_are_sentences(cli: Cli, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = cli(*arguments, fails=True)
    assert done.returncode == 1
    assert done.stdout == b""
    for word in words:
        assert word in done.stderr.decode()


def test_creating_twice_is_refused(cli: Cli, topic: str) -> None:
    assert b"exists" in cli("topic", "create", topic, fails=True).stderr


def test_partitions_never_shrink(cli: Cli, topic: str) -> None:
    cli("topic", "alter", topic, "--partitions", "1", fails=True)
    assert described(cli, topic)["partitions"] == 2


def test_a_broker_that_is_not_there_is_a_sentence() -> None:
    for arguments in (("topic", "list"), ("produce", "x", "y", "--timeout", "1s"), ("consume", "x")):
        done = run_cli("127.0.0.1:1", *arguments)
        assert done.returncode == 1
        assert b"127.0.0.1:1" in done.stderr
        assert b"Traceback" not in done.stderr


def test_an_address_that_is_none_is_a_sentence() -> None:
    for address in ("", "nowhere.invalid", "host:port", "::::"):
        done = run_cli("127.0.0.1:1", "topic", "list", "--address", address)
        assert done.returncode == 1
        assert b"Traceback" not in done.stderr


def test_the_address_may_come_before_the_command(shared_broker: BrokerProcess, topic: str) -> None:
    for words in (("-a", shared_broker.address, "topic", "list"), ("topic", "list", "-a", shared_broker.address)):
        done = run_cli("127.0.0.1:1", *words)
        assert topic in done.stdout.decode(), done.stderr
    done = run_cli("127.0.0.1:1", "-a", "127.0.0.1:2", "topic", "list", "--address", shared_broker.address)
    assert topic in done.stdout.decode(), "the command's own counts more"


def test_several_addresses_and_the_wrong_port(shared_broker: BrokerProcess, topic: str) -> None:
    http_address = shared_broker.http.removeprefix("http://")
    done = run_cli(http_address, "topic", "list")
    assert done.returncode == 1
    assert "give the native port" in done.stderr.decode()
    done = run_cli(f"127.0.0.1:1,{http_address},{shared_broker.address}", "topic", "list")
    assert topic in done.stdout.decode(), done.stderr


def test_the_shell_completes_commands_and_topic_names(shared_broker: BrokerProcess, topic: str) -> None:
    def complete(*words: str) -> list[str]:
        line = {"COMP_WORDS": " ".join(("quiver", *words)), "COMP_CWORD": str(len(words))}
        done = run_cli(shared_broker.address, _QUIVER_COMPLETE="complete_bash", **line)
        assert done.stderr == b""
        return done.stdout.decode().split()

    assert complete("pro") == ["produce"]
    assert complete("topic", "de") == ["describe", "delete"]
    for words in (("consume",), ("produce",), ("topic", "describe"), ("topic", "delete")):
        assert topic in complete(*words, topic[:4])


def test_completion_without_a_broker_is_silent() -> None:
    line = {"COMP_WORDS": "quiver consume ", "COMP_CWORD": "2"}
    done = run_cli("127.0.0.1:1", _QUIVER_COMPLETE="complete_bash", **line)
    assert (done.stdout.strip(), done.stderr) == (b"", b"")


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "quiver", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"quiver {quiver.__version__}\n"
