"""What every engine of coordination must do: `local`, `postgres`, `etcd` and `memory`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from etcd_cluster import EtcdCluster
from quiver.coordination.etcd.address import parse_etcd_address
from quiver.coordination.etcd.coordination import EtcdCoordination
from quiver.coordination.local import LocalCoordination
from quiver.coordination.port import ABSENT, ChangeBatch, Coordination, Delete, Expected, Operation, Put
from quiver.coordination.postgres import PostgresCoordination
from quiver.model.errors import InvalidRequest
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.storage.postgres.database.address import parse_address
from quiver.storage.postgres.storage import PostgresStorage
from quiver.system.clock import SystemClock
from quiver.testing.memory_coordination import MemoryCoordination

KINDS = ["memory", "local", "postgres", "etcd"]
LONG_MS = 3_600_000


class EngineUnderTest:
    def __init__(self, root: Path, *, database: str | None, etcd: EtcdCluster | None, keeps_state: bool) -> None:
        self.keeps_state = keeps_state
        self._root, self._database, self._etcd = root, database, etcd
        self._storage: LocalStorage | PostgresStorage | None = None
        self._opened: EtcdCoordination | LocalCoordination | MemoryCoordination | PostgresCoordination | None = None

    @property
    def is_streamed(self) -> bool:
        """Changes are on their way to a watcher before it asks for them."""
        return self._etcd is not None

    async def open(self) -> Coordination:
        if not self.keeps_state:
            self._opened = MemoryCoordination()
        elif self._etcd is not None:
            self._opened = EtcdCoordination(parse_etcd_address(self._etcd.address(self._root.name)))
        elif self._database is not None:
            self._storage = PostgresStorage(parse_address(self._database))
            await self._storage.open()
            self._opened = PostgresCoordination(self._storage.resources.database, kept_revisions=5)
            await self._opened.open()
        else:
            self._storage = LocalStorage(self._root / "data", LocalSettings(min_free_bytes=0))
            await self._storage.open()
            self._opened = LocalCoordination(clock=SystemClock())
            await self._opened.open(self._storage, await self._storage.next_start_epoch())
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
        if self._storage is not None:
            await self._storage.close()

    async def forget_history(self, engine: Coordination) -> None:
        """Makes so many changes that earlier ones are forgotten."""
        for number in range(6):
            await put(engine, f"other/{number}", bytes(900_000))
        if self._etcd is not None:
            self._etcd.compact()


@pytest.fixture(params=KINDS)
def under_test(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    database = request.getfixturevalue("database") if request.param == "postgres" else None
    etcd = request.getfixturevalue("etcd") if request.param == "etcd" else None
    return EngineUnderTest(tmp_path, database=database, etcd=etcd, keeps_state=request.param != "memory")


@pytest.fixture
async def engine(under_test: EngineUnderTest) -> AsyncIterator[Coordination]:
    yield await under_test.open()
    await under_test.close()


async def put(engine: Coordination, key: str, value: bytes, *expected: Expected) -> int:
    outcome = await engine.commit(expected, [Put(key, value)])
    assert outcome.succeeded
    return outcome.revision


async def value_of(engine: Coordination, key: str) -> bytes | None:
    found = await engine.get(key)
    return None if found is None else found.value


async def following(watch: AsyncGenerator[ChangeBatch, None], revision: int) -> list[ChangeBatch]:
    """The batches up to a revision."""
    batches: list[ChangeBatch] = []
    async with asyncio.timeout(30):
        while not batches or batches[-1].revision < revision:
            batches.append(await anext(watch))
    return batches


# keys


async def test_a_key_is_what_was_put_last_and_a_range_is_sorted(engine: Coordination) -> None:
    assert await engine.get("a/1") is None
    first = await put(engine, "a/2", b"\x00\xff")
    second = await put(engine, "a/1", b"")
    await put(engine, "b/1", b"other")
    third = await put(engine, "a/2", b"new")
    assert first < second < third
    found = await engine.range("a/")
    assert [(item.key, item.value, item.revision) for item in found.items] == [
        ("a/1", b"", second),
        ("a/2", b"new", third),
    ]
    assert found.revision == third
    gone = await engine.commit([], [Delete("a/1"), Delete("a/9")])
    assert gone.revision == third + 1
    assert [item.key for item in (await engine.range("a/")).items] == ["a/2"]


async def test_a_transaction_changes_all_or_nothing(engine: Coordination) -> None:
    revision = await put(engine, "a", b"1")
    both: list[Operation] = [Put("a", b"2"), Put("b", b"2"), Delete("c")]
    for expected in ([Expected("a", ABSENT)], [Expected("a", revision), Expected("b", revision)]):
        refused = await engine.commit(expected, both)
        assert (refused.succeeded, refused.missing_lease_id) == (False, 0)
        assert await value_of(engine, "b") is None
    done = await engine.commit([Expected("a", revision), Expected("b", ABSENT)], both)
    assert done.succeeded
    found = await engine.range("")
    assert [(item.key, item.revision) for item in found.items] == [("a", done.revision), ("b", done.revision)]
    assert not (await engine.commit([Expected("a", revision)], [])).succeeded
    assert (await engine.commit([Expected("a", done.revision)], [])).succeeded


async def test_of_two_swaps_of_the_same_state_one_succeeds(engine: Coordination) -> None:
    revision = await put(engine, "a", b"0")
    for turn in range(5):
        swaps = [engine.commit([Expected("a", revision)], [Put("a", b"%d %d" % (turn, n))]) for n in range(8)]
        outcomes = await asyncio.gather(*swaps)
        [winner] = [n for n, outcome in enumerate(outcomes) if outcome.succeeded]
        assert await value_of(engine, "a") == b"%d %d" % (turn, winner)
        revision = outcomes[winner].revision
    absent = [engine.commit([Expected("new", ABSENT)], [Put("new", b"")]) for _ in range(8)]
    assert sum(outcome.succeeded for outcome in await asyncio.gather(*absent)) == 1


async def test_counting_with_many_writers_loses_nothing(engine: Coordination) -> None:
    async def count_up(times: int) -> None:
        while times:
            found = await engine.get("n")
            value, revision = (0, ABSENT) if found is None else (int(found.value), found.revision)
            outcome = await engine.commit([Expected("n", revision)], [Put("n", b"%d" % (value + 1))])
            times -= outcome.succeeded

    await asyncio.gather(*(count_up(10) for _ in range(5)))
    assert await value_of(engine, "n") == b"50"


async def test_what_no_engine_accepts(engine: Coordination) -> None:
    for operations in (
        [Put("a", bytes(1_048_577))],
        [Put("", b"")],
        [Put("k" * 513, b"")],
        [Put("a", b""), Delete("a")],
        [Put(f"a/{n}", b"") for n in range(129)],
    ):
        with pytest.raises(InvalidRequest):
            await engine.commit([], operations)
    assert (await engine.range("")).items == []


# watching


async def test_a_watch_tells_every_change_in_order_and_a_transaction_at_once(engine: Coordination) -> None:
    start = await put(engine, "a/0", b"before")
    watch = engine.watch("a/", start)
    await engine.commit([], [Put("a/1", b"x"), Put("b/1", b"other"), Delete("a/0")])
    await put(engine, "b/2", b"other")
    last = await put(engine, "a/1", b"y")
    batches = await following(watch, last)
    assert not any(batch.is_complete for batch in batches)
    changes = [change for batch in batches for change in batch.changes]
    assert sorted(changes[:2]) == [("a/0", None, start + 1), ("a/1", b"x", start + 1)]
    assert changes[2:] == [("a/1", b"y", last)]
    assert sum(batch.revision == start + 1 or len(batch.changes) > 1 for batch in batches) == 1
    await watch.aclose()


async def test_a_watch_from_the_beginning_begins_with_everything(engine: Coordination) -> None:
    await put(engine, "a/1", b"1")
    revision = await put(engine, "b/1", b"2")
    watch = engine.watch("a/")
    first = await anext(watch)
    assert (first.is_complete, first.revision, [change.key for change in first.changes]) == (True, revision, ["a/1"])
    waiting = asyncio.ensure_future(following(watch, revision + 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    await engine.commit([], [Delete("a/1")])
    assert (await waiting)[-1].changes == [("a/1", None, revision + 1)]
    await watch.aclose()


async def test_watches_during_writes_agree_with_what_is_there(engine: Coordination) -> None:
    async def write(name: int) -> None:
        for number in range(20):
            key = f"k/{number % 4}"
            await engine.commit([], [Delete(key) if number % 7 == 6 else Put(key, b"%d %d" % (name, number))])

    async def follow(known: dict[str, bytes], seen: list[int]) -> None:
        async for batch in engine.watch("k/"):
            assert not seen or batch.revision > seen[-1]
            seen.append(batch.revision)
            if batch.is_complete:
                known.clear()
            for key, value, _ in batch.changes:
                known.pop(key, None)
                if value is not None:
                    known[key] = value

    views = [(dict[str, bytes](), list[int]()) for _ in range(3)]
    tasks = [asyncio.ensure_future(follow(*view)) for view in views]
    await asyncio.gather(*(write(name) for name in range(4)))
    found = await engine.range("k/")
    async with asyncio.timeout(30):
        while any(not seen or seen[-1] < found.revision for _, seen in views):
            await asyncio.sleep(0)
    for known, _ in views:
        assert known == {item.key: item.value for item in found.items}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_watcher_that_is_too_far_behind_reads_again(
    under_test: EngineUnderTest, engine: Coordination
) -> None:
    revision = await put(engine, "a/1", b"1")
    slow = engine.watch("a/", revision)
    await put(engine, "a/2", b"2")
    assert [change.key for change in (await anext(slow)).changes] == ["a/2"]
    await engine.commit([], [Delete("a/1"), Put("a/3", b"3")])
    await under_test.forget_history(engine)
    last = (await engine.range("")).revision
    batches = await following(slow, last)
    if under_test.is_streamed and not batches[0].is_complete:
        batches = await following(engine.watch("a/", revision), last)
    assert batches[0].is_complete
    assert [change.key for change in batches[0].changes] == ["a/2", "a/3"]
    last = await put(engine, "a/4", b"4")
    assert (await following(slow, last))[-1].changes == [("a/4", b"4", last)]
    await slow.aclose()


# leases


async def test_keys_vanish_with_their_lease(engine: Coordination) -> None:
    lease, other = await engine.grant_lease(LONG_MS), await engine.grant_lease(LONG_MS)
    assert lease != other
    await engine.commit([], [Put("n/1", b"", lease), Put("n/2", b"", lease), Put("n/3", b"", lease)])
    await engine.commit([], [Put("n/2", b"", other), Delete("n/3")])
    start = await put(engine, "n/3", b"stays")
    watch = engine.watch("n/", start)
    assert await engine.keep_alive(lease)
    await engine.revoke(lease)
    [batch] = await following(watch, start + 1)
    assert batch.changes == [("n/1", None, start + 1)]
    assert [item.key for item in (await engine.range("n/")).items] == ["n/2", "n/3"]
    assert not await engine.keep_alive(lease)
    await engine.revoke(lease)
    refused = await engine.commit([], [Put("n/1", b"", lease)])
    assert (refused.succeeded, refused.missing_lease_id) == (False, lease)
    await watch.aclose()


async def test_a_lease_that_nobody_keeps_alive_ends(engine: Coordination) -> None:
    lease, kept = await engine.grant_lease(1_000), await engine.grant_lease(LONG_MS)
    assert (await engine.commit([], [Put("n/1", b"", lease), Put("n/2", b"", kept)])).succeeded
    async with asyncio.timeout(30):
        async for batch in engine.watch("n/"):
            if [change.key for change in batch.changes] in (["n/1"], ["n/2"]):
                break
    assert [item.key for item in (await engine.range("n/")).items] == ["n/2"]
    assert not await engine.keep_alive(lease)
    assert await engine.keep_alive(kept)


# restarts


async def test_everything_outlives_a_restart(under_test: EngineUnderTest, engine: Coordination) -> None:
    if not under_test.keeps_state:
        pytest.skip("it forgets")
    lease = await engine.grant_lease(LONG_MS)
    await put(engine, "a", b"1")
    await engine.commit([], [Put("b", b"2", lease)])
    before = await engine.range("")
    await under_test.close()
    again = await under_test.open()
    assert await again.range("") == before
    batch = await anext(again.watch("", before.revision - 1))
    assert batch.revision == before.revision
    assert await again.grant_lease(LONG_MS) != lease
    await again.revoke(lease)
    assert [item.key for item in (await again.range("")).items] == ["a"]
    assert await put(again, "c", b"") == before.revision + 2
