"""Dead letters on Spark: reports that agree with what died, and selections that come back once."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from blackbox.callers.failing_work import FailingWork
from blackbox.processes.broker_process import BrokerProcess
from quiver.cli.commands.pipeline import app
from quiver.model.errors import InvalidRequest, QuiverError, TopicNotFound
from quiver.model.times import format_time, parse_time_ms
from quiver_spark.jobs.dead_letters.transforms import dead_letters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., dict[str, Any]]

_NUMBERS = itertools.count()


@pytest.fixture
def run(spark: "SparkSession", spark_broker: BrokerProcess) -> Run:
    """The command; what it prints as JSON."""

    def run(*words: str, place: tuple[str, ...] = ("--bootstrap", spark_broker.address)) -> dict[str, Any]:
        done = CliRunner().invoke(app, ["dead-letters", *words, *place, "--output", "json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return dict(json.loads(done.stdout))

    return run


def failing_work(broker: BrokerProcess, **settings: Any) -> FailingWork:
    return FailingWork(broker, f"failing-{next(_NUMBERS)}", **{"partitions": 2, **settings})


def counts(table: list[dict[str, Any]], *names: str) -> dict[tuple[Any, ...], int]:
    return {tuple(row[name] for name in names): row["messages"] for row in table}


def test_reports_and_a_selection_that_comes_back_once(run: Run, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    orders, emails = failing_work(spark_broker), failing_work(spark_broker, max_attempts=2, backoff="1ms")
    orders.kill_off("a", "b", reason="no such customer", partition=0)
    orders.wait_for_dead_letters(2)
    orders.kill_off("c", "d", "e", reason="timeout of 5 s", key="k", partition=0)
    orders.kill_off("f", reason="timeout of 9 s", partition=1)
    emails.kill_off("g", "h", reason="timeout of 5 s", group="senders")
    emails.publish("i")
    for _ in range(2):
        emails.settle("nack", emails.receive(1, "senders"), reason="slow")
    dead = {work: work.wait_for_dead_letters(6 if work is orders else 3) for work in (orders, emails)}
    names = (orders.topic, emails.topic)

    said = run("report", *names, "--bucket", "day", "--out", str(tmp_path))
    everything = [dead_letter for dead_letters in dead.values() for dead_letter in dead_letters]
    assert said["rows"] == len(everything) == 9
    assert counts(said["topics"], "topic", "group", "reason") == {
        (orders.topic, "workers", "rejected"): 6,
        (emails.topic, "senders", "rejected"): 2,
        (emails.topic, "senders", "max_attempts"): 1,
    }
    assert counts(said["errors"], "topic", "error") == {
        (orders.topic, "timeout of 5 s"): 3,
        (orders.topic, "no such customer"): 2,
        (emails.topic, "timeout of 5 s"): 2,
        (orders.topic, "timeout of 9 s"): 1,
        (emails.topic, "slow"): 1,
    }
    assert counts(said["attempts"], "attempts") == {(1,): 8, (2,): 1}
    assert sum(counts(said["times"], "time").values()) == 9
    assert all(row["time"].endswith("T00:00:00.000Z") for row in said["times"])
    died = sorted(dead_letter["died_at"] for dead_letter in everything)
    assert (said["first"], said["last"]) == (died[0], died[-1])
    [customers] = [row for row in said["errors"] if row["error"] == "no such customer"]
    assert customers["examples"] == [dead[orders][0]["id"], dead[orders][1]["id"]]
    assert json.loads((tmp_path / "report.json").read_text())["rows"] == 9

    selection = ("redrive", *names, "--error-like", "%of 5 s", "--where", f"topic = '{orders.topic}'")
    before = [message["value"] for message in orders.stored()]
    for words, expected in (["--dry-run"], 3), ([], 3), ([], 0):
        said = run(*selection, *words, "--progress")
        assert (said["rows"], said["gone"], sum(said["topics"].values())) == (expected, 0, expected)
        back = 0 if words else 3
        assert len(orders.stored()) == len(before) + back
    after = [message["value"] for message in orders.stored()]
    assert sorted(after) == sorted([*before, "c", "d", "e"])
    assert [value for value in after if value in "cde"] == ["c", "d", "e"] * 2, "in their order"
    assert sorted(orders.values()) == ["a", "b", "f"]

    for place in ("--bootstrap", spark_broker.address), ("--path", str(spark_broker.data_dir)):
        said = run("report", *names, "--top", "2", place=place)
        assert (said["rows"], said["messages_read"]) == (6, 9), "what was sent back is read, and does not count"
        assert list(counts(said["errors"], "error").values()) == [2, 2]


def test_a_run_with_an_id_takes_what_it_was_begun_with(run: Run, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    work, other = failing_work(spark_broker), failing_work(spark_broker)
    for number in range(4):
        work.kill_off(f"m{number}", partition=number % 2)
        work.wait_for_dead_letters(number + 1)
    first = ("redrive", "--pattern", work.topic, "--into", other.topic, "--limit", "3", "--rate", "1000")
    words = (*first, "--run-id", "once", "--state", str(tmp_path))
    said = run(*words)
    assert (said["rows"], said["into"], said["run_id"]) == (3, other.topic, "once")
    assert sorted(message["value"] for message in other.stored()) == ["m0", "m1", "m2"]
    work.kill_off("m4", partition=0)
    work.wait_for_dead_letters(2)
    assert run(*words)["rows"] == 0, "the others have no part in it"
    assert run("redrive", work.topic, "--reason", "rejected", "--group", "workers")["rows"] == 2
    assert run("redrive", work.topic, "--reason", "expired")["rows"] == 0
    assert len(other.stored()) == 3


def test_what_cannot_be(run: Run, spark: "SparkSession", spark_broker: BrokerProcess) -> None:
    quiet, work = failing_work(spark_broker), failing_work(spark_broker)
    work.kill_off("x")
    [dead_letter] = work.wait_for_dead_letters(1)
    place = ["--bootstrap", spark_broker.address]

    def said(*words: str) -> str:
        done = CliRunner().invoke(app, ["dead-letters", *words, *place], catch_exceptions=False)
        return done.stdout

    assert said("report", quiet.topic) == "there are no dead letters\n"
    assert said("report", work.topic, "--group", "nobody") == "no dead letters fit (1 looked at)\n"
    assert said("redrive", quiet.topic) == "no dead letters fit: nothing was redriven\n"
    with pytest.raises(TopicNotFound, match="there is no topic 'nowhere', and there are no dead letters of one"):
        said("report", "nowhere")
    with pytest.raises(QuiverError, match="no_such_column"):
        said("redrive", work.topic, "--where", "no_such_column = 1")
    with pytest.raises(TopicNotFound, match="there is no topic 'nowhere'"):
        said("redrive", work.topic, "--into", "nowhere")
    with pytest.raises(InvalidRequest, match="dead-letter topic itself"):
        said("redrive", work.topic, "--into", f"{work.topic}.dlq", "--dry-run")
    assert work.values() == ["x"]
    assert said("redrive", work.topic).splitlines()[1] == f"  {work.topic}.dlq: 1  ({dead_letter['id']})"


def test_letters_of_a_frame(spark: "SparkSession", spark_broker: BrokerProcess) -> None:
    """For jobs that users write."""
    work = failing_work(spark_broker)
    work.kill_off("x", reason="sour", key="k", headers={"own": "1"})
    [dead_letter] = work.wait_for_dead_letters(1)
    options = {"topic": f"{work.topic}.dlq", "bootstrap": spark_broker.address}
    [row] = dead_letters(spark.read.format("quiver").options(**options).load()).toArrow().to_pylist()
    assert (row["id"], row["topic"], row["error"], row["attempts"]) == (dead_letter["id"], work.topic, "sour", 1)
    assert (row["key"], row["value"], row["headers"]) == (b"k", b"x", [("own", b"1")])
    assert format_time(parse_time_ms(row["died_at"])) == dead_letter["died_at"]
