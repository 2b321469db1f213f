"""The shipped command against a running broker."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import quiver
from blackbox.broker_process import QUIVER, BrokerProcess, wait_until

Cli = Callable[..., subprocess.CompletedProcess[bytes]]


def run_cli(address: str, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUIVER_")}
    environment["QUIVER_ADDRESS"] = address
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(
        [str(QUIVER), *arguments], capture_output=True, env=environment, check=False, timeout=40, **given
    )


@pytest.fixture
def cli(shared_broker: BrokerProcess) -> Cli:
    """Runs the command against the module's broker; anything but exit status 0 fails the test unless `fails`."""

    def run(*arguments: str, stdin: bytes | None = None, fails: bool = False) -> subprocess.CompletedProcess[bytes]:
        done = run_cli(shared_broker.address, *arguments, stdin=stdin)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        assert (done.returncode != 0) == fails, done.stderr.decode() + done.stdout.decode()
        return done

    return run


@pytest.fixture
def topic(cli: Cli) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    cli("topic", "create", name, "--partitions", "2", "--durability", "interval")
    return name


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
    assert described(cli, "life")["config"]["retention"] is None
    assert described(cli, "life")["partitions"] == 5
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


def test_arguments_are_messages_and_their_places_are_printed(cli: Cli, topic: str) -> None:
    done = cli("produce", topic, "one", "two", "--key", "k", "-o", "json")
    places = json.loads(done.stdout)
    assert [place["offset"] for place in places] == [0, 1]
    assert len({place["partition"] for place in places}) == 1
    assert cli("consume", topic).stdout == b"one\ntwo\n"


def test_what_is_produced_is_consumed_with_key_headers_and_priority(cli: Cli, topic: str) -> None:
    cli("produce", topic, "naïve", "-k", "ключ", "-H", "a=1", "-H", "b=x=y", "--priority", "high", "--ttl", "1h")
    message = json.loads(cli("consume", topic, "--format", "json").stdout)
    assert (message["key"], message["value"], message["priority"]) == ("ключ", "naïve", "high")
    assert message["headers"] == {"a": "1", "b": "x=y"}
    assert message["topic"] == topic


def test_lines_of_standard_input(cli: Cli, topic: str) -> None:
    done = cli("produce", topic, "--partition", "0", "-o", "json", stdin=b"first\n\n\xff\xfe\r\nlast")
    assert json.loads(done.stdout)["messages"] == 4
    assert cli("consume", topic).stdout == b"first\n\n\xff\xfe\r\nlast\n"


def test_lines_with_keys(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--key-separator", "\\t", "--partition", "0", stdin=b"k1\tv1\nk2\tv\t2\n")
    assert cli("consume", topic, "--format", "{key}={value}").stdout == b"k1=v1\nk2=v\t2\n"


def test_a_key_goes_to_one_partition_whichever_way_it_is_sent(cli: Cli, topic: str) -> None:
    cli("produce", topic, "a", "--key", "same")
    cli("produce", topic, "--key-separator", ":", stdin=b"same:b\n")
    cli("produce", topic, "--key", "same", stdin=b"c\n")
    partitions = cli("consume", topic, "--format", "{partition}").stdout.split()
    assert len(partitions) == 3
    assert len(set(partitions)) == 1


def test_files_one_after_the_other_and_compressed(cli: Cli, topic: str, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"".join(b"first %d\n" % n for n in range(50_000)))
    second.write_bytes(b"end\n")
    done = cli(
        "produce", topic, "-f", str(first), "-f", str(second), "-p", "1", "--compression", "zstd", "-o", "json"
    )
    summary = json.loads(done.stdout)
    assert summary["messages"] == 50_001
    assert summary["bytes"] == first.stat().st_size + second.stat().st_size
    assert done.stderr == b""
    assert cli("consume", topic).stdout == first.read_bytes() + second.read_bytes()


def test_an_empty_input_is_no_message(cli: Cli, topic: str) -> None:
    assert json.loads(cli("produce", topic, "-o", "json", stdin=b"").stdout)["messages"] == 0
    assert cli("consume", topic).stdout == b""


@pytest.mark.parametrize(
    ("arguments", "stdin", "word"),
    [
        (("--file", "/does/not/exist"), None, "/does/not/exist"),
        (("--key-separator", ":"), b"no separator\n", "no separator"),
        (("value", "--file", "-"), None, "either"),
        (("--key", "a", "--key-separator", ":"), b"", "either"),
        (("value", "--header", "nameless"), None, "nameless"),
        (("value", "--priority", "urgent"), None, "urgent"),
        (("value", "--partition", "99"), None, "99"),
        (("value", "--compression", "rar"), None, "rar"),
        (("value", "--acks", "some"), None, "some"),
        (("value", "--ttl", "soon"), None, "soon"),
        (("value", "--delay", "5m"), None, "not available"),
        (("value", "--deliver-at", "2030-01-01T00:00:00Z"), None, "not available"),
        (("--delay", "5m"), b"line\n", "not available"),
    ],
)
def test_bad_input_sends_nothing(
    cli: Cli, topic: str, arguments: tuple[str, ...], stdin: bytes | None, word: str
) -> None:
    done = cli("produce", topic, *arguments, stdin=stdin, fails=True)
    assert done.returncode == 1
    assert word in done.stderr.decode()
    assert cli("consume", topic).stdout == b""


def test_a_message_over_the_limit_is_refused(cli: Cli, topic: str) -> None:
    done = cli("produce", topic, stdin=b"x" * 1_100_000 + b"\n", fails=True)
    assert b"limit" in done.stderr
    assert cli("consume", topic).stdout == b""


def test_consume_from_to_and_count(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--partition", "0", stdin=b"".join(b"%d\n" % n for n in range(100)))

    def numbers(*arguments: str) -> list[int]:
        return [int(line) for line in cli("consume", topic, *arguments).stdout.split()]

    assert numbers() == list(range(100))
    assert numbers("--from", "90") == list(range(90, 100))
    assert numbers("--from", "10", "--to", "20", "-p", "0") == list(range(10, 20))
    assert numbers("-n", "7") == list(range(7))
    assert numbers("--from", "latest") == []
    assert numbers("--from", "-1h") == list(range(100))
    assert numbers("--to", "-1h") == []
    assert numbers("--from", "2020-01-01T00:00:00Z", "--to", "2020-01-02T00:00:00Z") == []
    assert numbers("--partition", "1") == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--from", "yesterday"), "yesterday"),
        (("--to", "soon"), "soon"),
        (("--follow", "--to", "5"), "either"),
        (("-n", "0"), "1 or more"),
        (("--format", "xml"), "xml"),
        (("--partition", "77"), "77"),
    ],
)
def test_consume_refuses_what_makes_no_sense(cli: Cli, topic: str, arguments: tuple[str, ...], word: str) -> None:
    done = cli("consume", topic, *arguments, fails=True)
    assert done.returncode == 1
    assert word in done.stderr.decode()


def test_follow_shows_messages_as_they_come_until_interrupted(shared_broker: BrokerProcess, topic: str) -> None:
    command = [str(QUIVER), "consume", topic, "--follow", "--address", shared_broker.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        with quiver.connect(shared_broker.address) as q:
            for word in (b"one", b"two"):
                q.publish(topic, word)
                assert follower.stdout.readline() == word + b"\n"
        follower.send_signal(signal.SIGINT)
        out, err = follower.communicate(timeout=20)
    assert (out, err) == (b"", b"")
    assert follower.returncode == 130


def test_a_count_with_follow_waits_for_that_many(shared_broker: BrokerProcess, topic: str) -> None:
    command = [str(QUIVER), "consume", topic, "--follow", "-n", "2", "--address", shared_broker.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        with quiver.connect(shared_broker.address) as q:
            q.publish(topic, b"one")
            assert follower.stdout.readline() == b"one\n"
            q.publish(topic, b"two")
        assert follower.communicate(timeout=20)[0] == b"two\n"
    assert follower.returncode == 0


def test_a_reader_that_stops_early_is_no_error(cli: Cli, shared_broker: BrokerProcess, topic: str) -> None:
    cli("produce", topic, stdin=b"a line that fills the pipe\n" * 100_000)
    command = f"'{QUIVER}' consume {topic} --address {shared_broker.address} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a line that fills the pipe\n", b"")


def test_a_broker_that_is_not_there_is_a_sentence() -> None:
    for arguments in (("topic", "list"), ("produce", "x", "y"), ("consume", "x")):
        done = run_cli("127.0.0.1:1", *arguments)
        assert done.returncode == 1
        assert b"127.0.0.1:1" in done.stderr
        assert b"Traceback" not in done.stderr


def test_an_address_that_is_none_is_a_sentence() -> None:
    for address in ("", "nowhere", "host:port", "::::"):
        done = run_cli("127.0.0.1:1", "topic", "list", "--address", address)
        assert done.returncode in (1, 2)
        assert b"Traceback" not in done.stderr


def test_the_shell_completes_commands_and_topic_names(shared_broker: BrokerProcess, topic: str) -> None:
    def complete(*words: str) -> list[str]:
        environment = {
            **os.environ,
            "QUIVER_ADDRESS": shared_broker.address,
            "_QUIVER_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("quiver", *words)),
            "COMP_CWORD": str(len(words)),
        }
        done = subprocess.run([str(QUIVER)], capture_output=True, text=True, env=environment, check=False)
        assert done.stderr == ""
        return done.stdout.split()

    assert complete("pro") == ["produce"]
    assert complete("topic", "de") == ["describe", "delete"]
    for words in (("consume",), ("produce",), ("topic", "describe"), ("topic", "delete")):
        assert topic in complete(*words, topic[:4])


def test_completion_without_a_broker_is_silent() -> None:
    environment = {
        **os.environ,
        "QUIVER_ADDRESS": "127.0.0.1:1",
        "_QUIVER_COMPLETE": "complete_bash",
        "COMP_WORDS": "quiver consume ",
        "COMP_CWORD": "2",
    }
    done = subprocess.run([str(QUIVER)], capture_output=True, text=True, env=environment, check=False, timeout=30)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_bulk_input_shows_progress_on_a_terminal(shared_broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"line\n" * 200_000)
    master, slave = os.openpty()
    command = [str(QUIVER), "produce", topic, "--file", str(path), "--address", shared_broker.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave) as process:
        os.close(slave)
        shown = b""
        while chunk := _read_terminal(master):
            shown += chunk
        assert process.stdout is not None
        summary = process.stdout.read()
    os.close(master)
    assert b"200000" in summary
    assert b"messages" in shown


def _read_terminal(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # the other side is closed
        return b""


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "quiver", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"quiver {quiver.__version__}\n"


def test_produce_stops_with_an_error_when_the_broker_goes_away(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker()
    with quiver.connect(broker.address) as q:
        q.topics.create("orders")
    reader, writer = os.pipe()
    command = [str(QUIVER), "produce", "orders", "--address", broker.address]
    with subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.close(reader)
        os.write(writer, b"before\n")
        wait_until(lambda: broker.request("GET", "/topics/orders")[1]["total_messages"] == 1, 20, "the first line")
        broker.kill()
        os.write(writer, b"after\n")
        os.close(writer)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 1
    assert b"Traceback" not in err
    assert err.startswith(b"quiver: ")
