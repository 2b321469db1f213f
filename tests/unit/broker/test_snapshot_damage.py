"""Snapshots of every state machine are damaged on disk: the one before is used, or it is said what is lost."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.broker.every_state import STATES, STREAMS_LOG, Running, copy_of, snapshots

from quiver.messages.browse import BrowseRequest
from quiver.model.errors import CorruptData

STEPS = 5


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[min(len(content) - 1, int(len(content) * place))] ^= 0x10
    path.write_bytes(content)


def cut(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def from_the_future(path: Path) -> None:
    path.write_bytes(b"QVSNAP02" + path.read_bytes()[8:])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "its first byte": lambda path: flip(path, 0),
    "its offset": lambda path: flip(path, 8 / path.stat().st_size),
    "its content": lambda path: flip(path, 0.6),
    "its last byte": lambda path: flip(path, 1),
    "half of it": lambda path: cut(path, 0.5),
    "all of it": lambda path: cut(path, 0),
    "a newer version": from_the_future,
    "the file": lambda path: path.unlink(),
}


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory after kill -9, with something behind the last snapshot of each state machine."""
    import asyncio

    root = tmp_path_factory.mktemp("life") / "data"

    async def live() -> None:
        running = await Running(root).start()
        await running.set_up()
        for number in range(STEPS):
            await running.step(number)
            await running.save_all()
        await running.step(STEPS)
        copy_of(root, root.parent / "killed")
        await running.stop()

    asyncio.run(live())
    return root.parent / "killed"


async def known_in(root: Path) -> dict[str, object]:
    running = await Running(root).start()
    try:
        assert running.broker.node.problems() == {}
        return running.known()
    finally:
        await running.stop()


@pytest.mark.parametrize("log_id", STATES, ids=STATES.values())
async def test_a_damaged_newest_one_falls_back_to_the_one_before(
    life: Path, tmp_path: Path, log_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole = await known_in(copy_of(life, tmp_path / "whole"))
    assert len(snapshots(life, log_id)) >= 2
    for name, damage in DAMAGES.items():
        root = copy_of(life, tmp_path / "damaged")
        newest = snapshots(root, log_id)[-1]
        damage(newest)
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            running = await Running(root).start()
        assert running.broker.node.problems() == {}, name
        assert running.known() == whole, name
        if name != "the file":
            assert newest.name in running.broker.node.warnings()[log_id], name
            assert any(newest.name in record.message for record in caplog.records), name
        await running.stop()


@pytest.mark.parametrize("log_id", STATES, ids=STATES.values())
async def test_what_is_saved_next_makes_up_for_it(life: Path, tmp_path: Path, log_id: str) -> None:
    root = copy_of(life, tmp_path / "data")
    flip(snapshots(root, log_id)[-1], 0.6)
    running = await Running(root).start()
    running.set_up_again()
    for number in range(STEPS + 1, STEPS + 5):
        await running.step(number)
        await running.save_all()
    assert running.broker.node.warnings() == {}
    known = running.known()
    copy_of(root, tmp_path / "killed")
    await running.stop()
    flip(snapshots(tmp_path / "killed", log_id)[-1], 0.6)
    assert await known_in(tmp_path / "killed") == known


LOST = {
    STREAMS_LOG: "streams",
    "internal/transactions": "transactions",
    "internal/schedules": "schedules",
    "topics/1/0-delivery": "delivery of topic id 1, partition 0",
    "topics/1/0-timers": "delays of work-0",
}


@pytest.mark.parametrize("log_id", LOST)
async def test_without_a_whole_one_that_part_is_not_served_and_nothing_is_forgotten(
    life: Path, tmp_path: Path, log_id: str
) -> None:
    root = copy_of(life, tmp_path / "data")
    saved = {path: path.read_bytes() for path in snapshots(root, log_id)}
    for path in saved:
        flip(path, 0.6)
    for _ in range(2):
        running = await Running(root).start()
        problem = running.broker.node.problems()[LOST[log_id]]
        assert log_id in problem
        assert "its log begins at" in problem
        assert "from a backup" in problem
        known = running.known()
        assert len((await running.broker.read_messages("topic-0", 0, BrowseRequest())).messages) == 0
        await running.broker.publish("topic-0", [])
        await running.stop()
    for path, content in saved.items():
        path.write_bytes(content)
    again = await Running(root).start()
    assert again.broker.node.problems() == {}
    assert again.known()[log_id] == (await known_in(copy_of(life, tmp_path / "whole")))[log_id]
    await again.stop()
    assert {name for name in known if "internal" not in name} >= {"topics/1/0", "topics/2/0"}


@pytest.mark.parametrize("log_id", ["internal/coordination", "internal/producers"])
async def test_without_these_there_is_no_broker(life: Path, tmp_path: Path, log_id: str) -> None:
    root = copy_of(life, tmp_path / "data")
    for path in snapshots(root, log_id):
        flip(path, 0.6)
    running = Running(root)
    with pytest.raises(CorruptData, match=rf"{log_id} cannot be read: .*from a backup"):
        await running.start()
    await running.give_up()


@pytest.mark.parametrize("log_id", ["topics/1/0", "topics/2/0", "topics/3/0"])
async def test_a_partition_without_a_whole_one_serves_its_messages_and_says_what_it_forgot(
    life: Path, tmp_path: Path, log_id: str
) -> None:
    root = copy_of(life, tmp_path / "data")
    for path in snapshots(root, log_id):
        flip(path, 0.6)
    running = await Running(root).start()
    assert running.broker.node.problems() == {}
    warnings = running.broker.node.warnings()
    assert "is not used" in warnings[log_id]
    if log_id == "topics/2/0":  # its front is gone
        assert "what they send again is stored again" in warnings["purged-0"]
    await running.broker.publish("work", [])
    await running.stop()
