"""`quiver consume` against a running broker."""

import signal
import subprocess

import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import QUIVER, BrokerProcess
from blackbox.processes.cli_process import Cli


@pytest.fixture
def topic(q: quiver.Client) -> str:
    return new_topic(q, partitions=2, durability="interval")


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
        out, error = follower.communicate(timeout=20)
    assert (out, error) == (b"", b"")
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
