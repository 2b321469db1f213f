"""Coordination on real members of etcd that are killed, paused, compacted, and want passwords and certificates."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from etcd_cluster import EtcdCluster, program, running_etcd
from quiver.coordination.etcd.address import parse_etcd_address
from quiver.coordination.etcd.coordination import EtcdCoordination
from quiver.coordination.port import ChangeBatch, Delete, Expected, Put
from quiver.coordination.view import View
from quiver.model.errors import CoordinationUnavailable, InvalidRequest, InvalidSetting

pytestmark = pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")


@pytest.fixture
def one() -> Iterator[EtcdCluster]:
    with running_etcd() as cluster:
        yield cluster


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[EtcdCoordination]:
    engine = EtcdCoordination(parse_etcd_address(address))
    try:
        yield engine
    finally:
        await engine.close()


async def put(engine: EtcdCoordination, key: str, value: bytes) -> int:
    """Again and again until it is known to be done."""
    async with asyncio.timeout(60):
        while True:
            try:
                return (await engine.commit([], [Put(key, value)])).revision
            except CoordinationUnavailable:
                continue


async def until(watch: AsyncGenerator[ChangeBatch, None], revision: int) -> list[ChangeBatch]:
    batches: list[ChangeBatch] = []
    async with asyncio.timeout(60):
        while not batches or batches[-1].revision < revision:
            batches.append(await anext(watch))
    return batches


async def test_etcd_that_is_killed_and_comes_back(one: EtcdCluster) -> None:
    async with connected(one.address("c")) as engine, aclosing(engine.watch("a/")) as watch:
        await anext(watch)
        assert engine.problem is None
        one.members[0].kill()
        engine.client.call_seconds = 0.3
        with pytest.raises(CoordinationUnavailable, match=r"127\.0\.0\.1.*try again"):
            await engine.get("a/1")
        assert engine.problem is not None
        engine.client.call_seconds = 5.0
        waiting = asyncio.ensure_future(anext(watch))
        one.restart(one.members[0])
        revision = await put(engine, "a/1", b"back")
        assert (await waiting).changes == [("a/1", b"back", revision)]
        assert engine.problem is None


async def test_what_was_compacted_while_the_watch_was_away_is_read_again(one: EtcdCluster) -> None:
    async with connected(one.address("c")) as engine, connected(one.address("c")) as other:
        await put(engine, "a/1", b"1")
        watch = engine.watch("a/")
        await anext(watch)
        one.members[0].kill()
        one.restart(one.members[0])
        await other.commit([], [Delete("a/1"), Put("a/2", b"2")])
        revision = await put(other, "a/3", b"3")
        one.compact()
        batches = await until(watch, revision)
        if not batches[0].is_complete:  # it was back before the compaction
            batches = await until(engine.watch("a/", 2), revision)
        assert [change.key for change in batches[0].changes] == ["a/2", "a/3"]
        await watch.aclose()


async def test_a_cluster_of_three_loses_its_leader_and_a_member_stands_still() -> None:
    with running_etcd(members=3) as cluster:
        async with connected(cluster.address("c")) as engine, aclosing(engine.watch("n")) as watch:
            await anext(watch)
            seen: list[bytes | None] = []

            async def follow() -> None:
                async for batch in watch:
                    seen.extend(change.value for change in batch.changes)
                    if seen and seen[-1] == b"end":
                        return

            following = asyncio.ensure_future(follow())
            for number in range(60):
                if number == 20:
                    (killed := cluster.leader()).kill()
                if number == 40:
                    cluster.restart(killed)
                    used = next(m for m in cluster.members if m.port == engine.client.endpoint.port)
                    used.pause()
                await put(engine, "n", b"%d" % number)
            await put(engine, "n", b"end")
            async with asyncio.timeout(60):
                await following
            used.resume()
            values = [value for n, value in enumerate(seen) if n == 0 or seen[n - 1] != value]
            assert values == [*(b"%d" % number for number in range(60)), b"end"]
            for member in cluster.members[:2]:
                member.kill()
            engine.client.call_seconds = 1.0
            with pytest.raises(CoordinationUnavailable):
                await engine.commit([Expected("n", 1)], [Put("n", b"minority")])


async def test_others_use_the_same_etcd(etcd: EtcdCluster) -> None:
    """A refused transaction returns when the view shows why, though the last change was one of others."""
    async with connected(etcd.address("mine")) as engine, connected(etcd.address("others")) as others:
        view = View(engine)
        await view.open()
        assert await view.commit([view.expected("a")], [Put("a", b"1")])
        await put(others, "a", b"not mine")
        async with asyncio.timeout(30):
            assert not await view.commit([Expected("a", 1)], [Put("a", b"2")])
            await put(others, "b", b"not mine")
            assert await view.commit([], [Delete("nothing")])
            assert await view.commit([view.expected("a")], [])
        assert [item.key for item in (await engine.range("")).items] == ["a"]
        await view.close()


async def test_ranges_of_many_keys_are_read_page_by_page(etcd: EtcdCluster) -> None:
    async with connected(etcd.address("pages")) as engine:
        for first in range(0, 1_280, 128):
            await engine.commit([], [Put(f"k/{n:05}", b"%d" % n) for n in range(first, first + 128)])
        found = await engine.range("k/")
        assert [item.value for item in found.items] == [b"%d" % n for n in range(1_280)]
        with pytest.raises(InvalidRequest, match="etcd"):
            await engine.commit([], [Put(f"k/{n}", bytes(1_000_000)) for n in range(3)])


async def test_users_with_passwords_and_tokens_that_expire() -> None:
    with running_etcd(options=("--auth-token-ttl", "1")) as cluster:
        member = cluster.members[0]
        member.post("/v3/auth/user/add", {"name": "root", "password": "secret"})
        member.post("/v3/auth/user/grant", {"user": "root", "role": "root"})
        member.post("/v3/auth/enable", {})
        async with connected(cluster.address("c", user="root:secret@")) as engine:
            async with aclosing(engine.watch("")) as watch:
                await anext(watch)
                revision = await put(engine, "a", b"1")
                assert (await until(watch, revision))[-1].changes == [("a", b"1", revision)]
            token = engine.client._token
            async with asyncio.timeout(60):
                while engine.client._token == token:  # until it has expired, and a call got another one
                    member.kill()
                    cluster.restart(member)
                    await engine.get("a")
            assert await engine.get("a") is not None
        for user, problem in (("", "wants a user"), ("root:wrong@", "invalid user ID or password")):
            async with connected(cluster.address("c", user=user)) as engine:
                with pytest.raises(InvalidSetting, match=problem):
                    await engine.get("a")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
async def test_certificates(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=etcd"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    options = ("--cert-file", str(cert), "--key-file", str(key), "--trusted-ca-file", str(cert), "--client-cert-auth")
    tls = ssl.create_default_context(cafile=str(cert))
    tls.load_cert_chain(cert, key)
    with running_etcd(options=options, tls=tls) as cluster:
        files = f"?ca={cert}&cert={cert}&key={key}"
        async with connected(cluster.address("c", scheme="etcds", query=files)) as engine:
            revision = await put(engine, "a", b"1")
            assert await engine.get("a") == ("a", b"1", revision)
        for scheme, query in (("etcds", ""), ("etcds", f"?ca={cert}"), ("etcd", "")):
            async with connected(cluster.address("c", scheme=scheme, query=query)) as engine:
                engine.client.call_seconds = 0.3
                with pytest.raises(CoordinationUnavailable):
                    await engine.get("a")


async def test_an_endpoint_of_another_etcd_is_not_used(etcd: EtcdCluster, one: EtcdCluster) -> None:
    here, there = (cluster.members[0] for cluster in (etcd, one))
    async with connected(f"etcd://127.0.0.1:{here.port},127.0.0.1:{there.port}/mixed") as engine:
        await put(engine, "a", b"1")
        engine.client.leave(engine.client.endpoint, "for a test")
        assert await engine.get("a") is not None
        assert engine.client.endpoint.port == here.port
