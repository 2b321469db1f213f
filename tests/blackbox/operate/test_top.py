"""`quiver top` and `quiver topic watch` against the shipped broker, in a terminal and without one."""

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import quiver
from blackbox.operate.terminal_process import TerminalProcess
from blackbox.processes.broker_process import QUIVER, BrokerProcess, free_port, wait_until
from blackbox.processes.cli_process import Cli, run_cli

StartBroker = Callable[..., BrokerProcess]


@contextmanager
def publishing(q: quiver.Client, topic: str) -> Iterator[None]:
    """Something happens in a topic all the time."""
    ended = threading.Event()

    def publish() -> None:
        while not ended.is_set():
            q.publish(topic, b"x")

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_top_in_a_terminal_sorts_pauses_and_quits(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        q.topics.create("alpha", partitions=1)
        with q.stream("orders", group="billing") as stream:
            q.publish("orders", b"1")
            next(iter(stream))
        with TerminalProcess(broker.address, "top") as terminal, publishing(q, "orders"):
            terminal.wait_for("quiver 0.1.0")
            terminal.wait_for("billing")
            terminal.wait_for("PUBLISHED/S")
            terminal.wait_for("orders ")
            terminal.press("n")
            terminal.press(" ")
            terminal.wait_for("PAUSED")
            terminal.press("q")
            assert terminal.wait_exit() == 0
            assert terminal.is_restored


def test_top_survives_a_restart_of_the_broker(start_broker: StartBroker) -> None:
    ports = ("--http-port", str(free_port()), "--native-port", str(free_port()))
    broker = start_broker(*ports)
    with TerminalProcess(broker.address, "top") as terminal:
        terminal.wait_for("ready")
        broker.kill()
        terminal.wait_for("trying again")
        broker.start()
        terminal.wait_for("q quit")
        while "trying again" in terminal.wait_for("q quit"):
            pass
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait_exit() == 0
        assert terminal.is_restored


def test_top_once_needs_no_terminal(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
    cli = Cli(broker.address)
    for arguments in (("top", "--once"), ("top",)):
        text = cli(*arguments).stdout.decode()
        assert text.startswith("quiver 0.1.0")
        assert "published " in text
        assert "q quit" not in text
        assert "\x1b" not in text
    document = wait_until(
        lambda: (found := json.loads(cli("top", "--once", "-o", "json").stdout))["topics"] and found,
        30,
        "a sample taken after the topic was created",
    )
    assert (document["topics"], document["is_ready"], document["group_list"]) == (1, True, [])
    missing = run_cli(f"127.0.0.1:{free_port()}", "top", "--once")
    assert (missing.returncode, b"Connection refused" in missing.stderr) == (1, True)


def test_watch_counts_what_is_published_and_done(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=2)
        q.publish("orders", b"0", partition=0)
        with q.stream("orders", group="billing") as stream:
            assert next(iter(stream)).value == b"0"
        command = [str(QUIVER), "-a", broker.address, "topic", "watch", "orders", "-n", "4", "-o", "json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as watch:
            assert watch.stdout is not None
            first = json.loads(watch.stdout.readline())
            assert first["messages"] == 1
            with q.producer("orders") as producer:
                for number in range(500):
                    producer.send(b"x", partition=number % 2)
            rest = [json.loads(line) for line in watch.stdout]
        assert watch.returncode == 0
    assert len(rest) == 3
    assert sum(line["published"] for line in rest) == 500
    last = rest[-1]
    assert last["messages"] == 501
    assert last["size_bytes"] > first["size_bytes"]
    [group] = last["groups"]
    assert (group["group"], group["members"], group["lag"]) == ("billing", 0, 500)


def test_watch_prints_lines_and_says_when_the_topic_is_gone(broker: BrokerProcess) -> None:
    cli = Cli(broker.address)
    cli("topic", "create", "orders")
    head, line = cli("topic", "watch", "orders", "-n", "1").stdout.decode().splitlines()
    assert head.split() == ["TIME", "PUBLISHED/S", "BYTES/S", "MESSAGES", "SIZE", "GROUPS"]
    assert line.split()[1:] == ["0", "0", "B", "0", "0", "B", "-"]
    assert b"there is no topic 'missing'" in cli("topic", "watch", "missing", fails=True).stderr
    assert cli("topic", "watch", "orders", "-n", "0", fails=True).returncode == 1
    command = [str(QUIVER), "-a", broker.address, "topic", "watch", "orders"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        watch.stdout.readline()
        watch.stdout.readline()
        cli("topic", "delete", "orders")
        assert b"there is no topic 'orders'" in watch.stderr.read()
    assert watch.returncode == 1
