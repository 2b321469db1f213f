"""`quiver work module:function`: handlers of both kinds, draining on signals, errors in one sentence."""

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import QUIVER, BrokerProcess, wait_until

SECONDS = 30.0
HANDLERS = """
import os, pathlib, time
import quiver

HERE = pathlib.Path(__file__).parent

def note(job):
    if job.value == b"bad":
        raise ValueError("no good")
    if job.value == b"never":
        raise quiver.Reject("out of date")
    with open(HERE / "seen", "ab") as seen:
        seen.write(job.value + b"\\n")

async def anote(job):
    note(job)

def slow(job):
    (HERE / "begun").touch()
    while not (HERE / "gate").exists():
        time.sleep(0.01)
    note(job)

def stuck(job):
    (HERE / "begun").touch()
    while True:
        time.sleep(0.01)

nothing = 7
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return tmp_path


@contextmanager
def working(broker: BrokerProcess, place: Path, *arguments: str, **options) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"QUIVER_ADDRESS": broker.address}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    process = subprocess.Popen([str(QUIVER), "work", *arguments], cwd=place, env=environment, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def seen(place: Path) -> list[bytes]:
    path = place / "seen"
    return sorted(path.read_bytes().splitlines()) if path.exists() else []


@pytest.mark.parametrize("function", ["note", "anote"])
def test_a_function_gets_every_job_and_sigterm_drains(shared_broker: BrokerProcess, place: Path, function: str):
    topic = f"cli-{function}"
    with quiver.connect(shared_broker.address) as q:
        q.topics.create(topic, partitions=1, backoff="1ms", max_attempts=2)
        for value in ("a", "bad", "never", "b"):
            q.publish(topic, value)
        with working(shared_broker, place, f"handlers:{function}", "-t", topic, "-g", "cli", "-c", "2") as process:
            wait_until(lambda: len(q.dead_letters.list(topic)) == 2, SECONDS, "two dead letters")
            wait_until(lambda: len(seen(place)) == 2, SECONDS, "two are handled")
            process.terminate()
            _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, errors.decode()
        assert seen(place) == [b"a", b"b"]
        assert b"2 processed, 2 failed, 1 rejected" in errors
        assert b"ValueError: no good" in errors
        reasons = {dead_letter.reason for dead_letter in q.dead_letters.list(topic)}
        assert reasons == {"max_attempts", "rejected"}


def test_a_handler_that_runs_may_finish_and_the_rest_is_given_back(shared_broker: BrokerProcess, place: Path):
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("cli-slow", partitions=1)
        for number in range(5):
            q.publish("cli-slow", f"{number}")
        with working(shared_broker, place, "handlers:slow", "--topic", "cli-slow", "--group", "cli") as process:
            wait_until((place / "begun").exists, SECONDS, "a handler runs")
            process.send_signal(signal.SIGINT)
            assert b"stopping" in process.stderr.readline()
            (place / "gate").touch()
            _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, errors.decode()
        assert seen(place) == [b"0"]
        with q.work("cli-slow", group="cli") as work:
            for number in range(1, 5):
                with work.next_job() as job:
                    assert (job.value, job.attempt) == (b"%d" % number, 1)


def test_a_second_signal_ends_it_at_once(shared_broker: BrokerProcess, place: Path):
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("cli-stuck", partitions=1)
        q.publish("cli-stuck", "x")
        with working(shared_broker, place, "handlers:stuck", "-t", "cli-stuck", "-g", "cli") as process:
            wait_until((place / "begun").exists, SECONDS, "a handler runs")
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)
        assert b"abandoned" in errors


def test_a_terminal_shows_a_status_line(shared_broker: BrokerProcess, place: Path):
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("cli-status", partitions=1)
        for number in range(3):
            q.publish("cli-status", f"{number}")
    ours, theirs = pty.openpty()
    with working(
        shared_broker, place, "handlers:note", "-t", "cli-status", "-g", "cli", stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        while b"3 processed" not in shown:
            shown += os.read(ours, 4096)
        process.terminate()
        assert process.wait(SECONDS) == 0
    os.close(ours)
    assert b"cli on cli-status" in shown
    assert b"in flight" in shown


def test_what_cannot_be_run_is_said_in_one_sentence(shared_broker: BrokerProcess, place: Path):
    cases = {
        ("nowhere:note", "-t", "x", "-g", "y"): "no module 'nowhere'",
        ("handlers:note",): "--topic and --group",
        ("handlers:note", "-t", "no-such-topic", "-g", "y"): "no-such-topic",
    }
    for arguments, sentence in cases.items():
        with working(shared_broker, place, *arguments) as process:
            _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 1, errors.decode()
        assert sentence in errors.decode()
        assert b"Traceback" not in errors
