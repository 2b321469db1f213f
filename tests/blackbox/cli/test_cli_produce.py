"""`quiver produce` against a running broker."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import QUIVER, BrokerProcess, wait_until
from blackbox.processes.cli_process import Cli


@pytest.fixture
def topic(q: quiver.Client) -> str:
    return new_topic(q, partitions=2, durability="interval")


@pytest.fixture
def stored(shared_broker: BrokerProcess, topic: str) -> Callable[[], list[bytes | None]]:
    """The values that are in the topic now."""

    def read() -> list[bytes | None]:
        with quiver.connect(shared_broker.address) as q:
            return [message.value for message in q.read(topic, end="latest")]

    return read


Stored = Callable[[], list[bytes | None]]


def test_arguments_are_messages_and_their_places_are_printed(cli: Cli, topic: str, stored: Stored) -> None:
    done = cli("produce", topic, "one", "two", "--key", "k", "-o", "json")
    places = json.loads(done.stdout)
    assert [place["offset"] for place in places] == [0, 1]
    assert len({place["partition"] for place in places}) == 1
    assert stored() == [b"one", b"two"]


def test_what_is_produced_is_consumed_with_key_headers_and_priority(cli: Cli, topic: str) -> None:
    cli("produce", topic, "naïve", "-k", "ключ", "-H", "a=1", "-H", "b=x=y", "--priority", "high", "--ttl", "1h")
    message = json.loads(cli("consume", topic, "--format", "json").stdout)
    assert (message["key"], message["value"], message["priority"]) == ("ключ", "naïve", "high")
    assert message["headers"] == {"a": "1", "b": "x=y"}
    assert message["topic"] == topic


def test_lines_of_standard_input(cli: Cli, topic: str, stored: Stored) -> None:
    done = cli("produce", topic, "--partition", "0", "-o", "json", stdin=b"first\n\n\xff\xfe\r\nlast")
    assert json.loads(done.stdout)["messages"] == 4
    assert stored() == [b"first", b"", b"\xff\xfe\r", b"last"]


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
    files = ("-f", str(first), "-f", str(second))
    done = cli("produce", topic, *files, "-p", "1", "--compression", "zstd", "-o", "json")
    summary = json.loads(done.stdout)
    assert summary["messages"] == 50_001
    assert summary["bytes"] == first.stat().st_size + second.stat().st_size
    assert done.stderr == b""
    assert cli("consume", topic).stdout == first.read_bytes() + second.read_bytes()


def test_an_empty_input_is_no_message(cli: Cli, topic: str, stored: Stored) -> None:
    assert json.loads(cli("produce", topic, "-o", "json", stdin=b"").stdout)["messages"] == 0
    assert stored() == []


@pytest.mark.parametrize(
    ("arguments", "stdin", "word"),
    [
        (("--file", "/does/not/exist"), None, "/does/not/exist"),
        (("--key-separator", ":"), b"no separator\n", "no separator"),
        (("--key-separator", ""), b"line\n", "at least one"),
        (("value", "--file", "-"), None, "either"),
        (("--key", "a", "--key-separator", ":"), b"", "either"),
        (("value", "--header", "nameless"), None, "nameless"),
        (("value", "--priority", "urgent"), None, "urgent"),
        (("value", "--partition", "99"), None, "99"),
        (("value", "--compression", "rar"), None, "rar"),
        (("value", "--acks", "some"), None, "some"),
        (("value", "--ttl", "soon"), None, "soon"),
        (("value", "--delay", "soon"), None, "soon"),
        (("value", "--deliver-at", "tomorrow"), None, "tomorrow"),
        (("--delay", "5m", "--deliver-at", "2030-01-01T00:00:00Z"), b"line\n", "not both"),
    ],
)
def test_bad_input_sends_nothing(
    cli: Cli, topic: str, stored: Stored, arguments: tuple[str, ...], stdin: bytes | None, word: str
) -> None:
    done = cli("produce", topic, *arguments, stdin=stdin, fails=True)
    assert done.returncode == 1
    assert word in done.stderr.decode()
    assert stored() == []


def test_a_message_over_the_limit_is_refused(cli: Cli, topic: str, stored: Stored) -> None:
    done = cli("produce", topic, stdin=b"x" * 1_100_000 + b"\n", fails=True)
    assert b"limit" in done.stderr
    assert stored() == []


def test_bulk_input_shows_progress_on_a_terminal(shared_broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"line\n" * 200_000)
    master, slave = os.openpty()
    command = [str(QUIVER), "produce", topic, "--file", str(path), "--address", shared_broker.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave) as process:
        os.close(slave)
        shown = b""
        while chunk := read_terminal(master):
            shown += chunk
        assert process.stdout is not None
        summary = process.stdout.read()
    os.close(master)
    assert b"200000" in summary
    assert b"messages" in shown


def read_terminal(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # the other side is closed
        return b""


def test_it_ends_with_an_error_when_the_broker_goes_away(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with quiver.connect(broker.address) as q:
        q.topics.create("orders")
    reader, writer = os.pipe()
    command = [str(QUIVER), "produce", "orders", "--timeout", "2s", "--address", broker.address]
    with subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.close(reader)
        os.write(writer, b"before\n")
        wait_until(lambda: broker.request("GET", "/topics/orders")[1]["total_messages"] == 1, 20, "the first line")
        broker.kill()
        os.write(writer, b"after\n")
        os.close(writer)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Traceback" not in error
    assert error.startswith(b"quiver: ")
    assert b"1 messages were stored; 1 more" in error


def test_ctrl_c_says_what_was_sent(shared_broker: BrokerProcess, topic: str, stored: Stored) -> None:
    command = [str(QUIVER), "produce", topic, "-p", "0", "-o", "json", "--address", shared_broker.address]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        process.stdin.write(b"line\n" * 3)
        process.stdin.flush()
        wait_until(lambda: len(stored()) == 3, 20, "the lines")
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(printed)["messages"] == 3
    assert said.startswith(b"quiver: interrupted")
    assert b"Traceback" not in said
