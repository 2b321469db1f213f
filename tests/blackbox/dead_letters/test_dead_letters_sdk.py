"""`q.dead_letters` against the shipped broker."""

import re
from pathlib import Path

import pytest

import quiver
from blackbox.callers.failing_work import FailingWork
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import DeadLetterNotFound, InvalidRequest, TopicNotFound

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dead-letters.md"


def test_list_get_redrive_and_purge(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "sdk", partitions=2)
    work.kill_off("one", key="a", headers={"h": "1"}, reason="sour", partition=0)
    work.wait_for_dead_letters(1)
    work.kill_off("two", "three", key="b", reason="soft", partition=1)
    work.wait_for_dead_letters(3)
    with quiver.connect(shared_broker.address) as q:
        page = q.dead_letters.list("sdk")
        assert [dead_letter.value for dead_letter in page] == [b"one", b"two", b"three"]
        assert (len(page), page.total, page.next) == (3, 3, None)
        first = page.messages[0]
        assert (str(first.id), first.key, first.headers) == ("0:0", b"a", {"h": b"1"})
        assert (first.reason, first.last_error, first.attempts, first.group) == ("rejected", "sour", 1, "workers")
        assert first.original is not None
        assert (first.original.topic, first.original.partition, first.original.offset) == ("sdk", 0, 0)
        assert q.dead_letters.get("sdk", "0:0") == q.dead_letters.get("sdk", first) == first
        with pytest.raises(DeadLetterNotFound, match="7:7"):
            q.dead_letters.get("sdk", "7:7")

        assert [dead_letter.value for dead_letter in q.dead_letters.list("sdk", key="b", newest_first=True)] == [
            b"three",
            b"two",
        ]
        assert [dead_letter.value for dead_letter in q.dead_letters.list("sdk", contains="soft", limit=1)] == [b"two"]
        assert len(q.dead_letters.list("sdk", from_time="-1h", to_time=first.died_at_ms)) >= 1

        assert q.dead_letters.redrive("sdk", dry_run=True).dead_letter_count == 3
        taken = q.dead_letters.redrive("sdk", ids=[first, "1:9"])
        assert (taken.dead_letter_count, taken.ids, taken.missing) == (1, ["0:0"], ["1:9"])
        assert q.dead_letters.purge("sdk", limit=1).dead_letter_count == 1
        assert [dead_letter.value for dead_letter in q.dead_letters.list("sdk")] == [b"three"]
        assert q.dead_letters.redrive("sdk").dead_letter_count == 1
        assert len(q.dead_letters.list("sdk")) == 0
    assert sorted(message["value"] for message in work.receive(2)) == ["one", "three"]


def test_pages_and_long_redrives(shared_broker: BrokerProcess) -> None:
    """More than one request takes, each dead letter once."""
    work = FailingWork(shared_broker, "long", partitions=2)
    values = [f"m{number}" for number in range(6000)]
    work.publish(*values)
    for _ in range(6):
        work.settle("reject", work.receive(1000))
    work.wait_for_dead_letters(6000)
    with quiver.connect(shared_broker.address) as q:
        found, after = [], None
        while True:
            page = q.dead_letters.list("long", limit=2500, after=after)
            found += [dead_letter.value.decode() for dead_letter in page]
            after = page.next
            if after is None:
                break
        assert sorted(found) == sorted(values)
        assert q.dead_letters.redrive("long", dry_run=True).dead_letter_count == 6000
        assert q.dead_letters.redrive("long", limit=5500, dry_run=True).dead_letter_count == 5500
        taken = q.dead_letters.redrive("long", limit=5500)
        assert (taken.dead_letter_count, len(taken.ids)) == (5500, 1000)
        assert q.dead_letters.redrive("long").dead_letter_count == 500
    assert len(work.stored()) == 12_000


async def test_the_asynchronous_twin(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "twin", partitions=1)
    work.kill_off("hello")
    work.wait_for_dead_letters(1)
    async with quiver.connect_async(shared_broker.address) as q:
        [dead_letter] = await q.dead_letters.list("twin")
        assert (await q.dead_letters.purge("twin", ids=dead_letter)).dead_letter_count == 1
        assert len(await q.dead_letters.list("twin")) == 0


def test_what_cannot_be_is_refused(shared_broker: BrokerProcess) -> None:
    FailingWork(shared_broker, "no-letters")
    with quiver.connect(shared_broker.address) as q:
        assert len(q.dead_letters.list("no-letters")) == 0
        with pytest.raises(TopicNotFound):
            q.dead_letters.list("unknown")
        with pytest.raises(InvalidRequest, match="color"):
            q.dead_letters.list("no-letters", color="red")  # type: ignore[call-arg]
        with pytest.raises(InvalidRequest, match="7"):
            q.dead_letters.redrive("no-letters", ids=["7"])
        with pytest.raises(InvalidRequest, match="limit"):
            q.dead_letters.list("no-letters", limit=0)
        with pytest.raises(InvalidRequest, match="limit"):
            q.dead_letters.purge("no-letters", limit=-1)


def test_the_example_of_the_documents(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    work = FailingWork(shared_broker, "orders", partitions=1)
    work.kill_off("hello", reason="a timeout")
    work.wait_for_dead_letters(1)
    with quiver.connect(shared_broker.address) as q:
        exec(example, {"q": q})
    assert capsys.readouterr().out.splitlines() == ["0:0 a timeout b'hello'", "1"]
