"""Three real nodes: connections, memory, CPU while nothing happens, keys in etcd, and a kill -9, by units."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import quiver
from benchmarks.servers.server import cpu_seconds, resident_bytes
from benchmarks.workloads.cluster.nodes import Nodes
from quiver.coordination.etcd.address import parse_etcd_address
from quiver.coordination.etcd.coordination import EtcdCoordination

UNITS_COLUMNS = (
    "units",
    "link versions",
    "memory of a node",
    "TCP connections of a node",
    "CPU while idle",
    "failover",
)
KEYS_COLUMNS = ("key", "keys", "bytes per key and value")
PARTITIONS_COLUMNS = ("partitions", "memory of a node", "per partition and node", "bytes in etcd")
IDLE_SECONDS = 5.0
_MIB = 1024 * 1024


def measure_units(scratch: Path, etcd: str, counts: Iterable[int]) -> Iterator[tuple[str, ...]]:
    for count in counts:
        for versions in ("1", "1-2"):
            yield _units(scratch, etcd, count, versions)


def _units(scratch: Path, etcd: str, count: int, versions: str) -> tuple[str, ...]:
    name = f"units-{count}-{versions}"
    nodes = Nodes(scratch, etcd, name, "--cluster-workers", str(count), "--link-versions", versions)
    try:
        nodes.start()
        with quiver.connect(nodes.address) as client:
            client.topics.create("orders", partitions=4 * count)
            client.publish("orders", b"first", key=b"key")
        memory = max(map(resident_bytes, nodes.pids))
        connections = max(_connections(pid) for pid in nodes.pids)
        begun, used = time.monotonic(), cpu_seconds(nodes.pids)
        time.sleep(IDLE_SECONDS)
        share = (cpu_seconds(nodes.pids) - used) / (time.monotonic() - begun) / len(nodes.pids)
        pause = _kill(nodes)
    finally:
        nodes.discard()
    shown = f"{memory / _MIB:.0f} MiB", str(connections), f"{share * 100:.1f} % of a core", f"{pause:.1f} s"
    return str(count), versions, *shown


def _kill(nodes: Nodes) -> float:
    """Seconds from the kill of a leader to the next ack of its partition."""
    leader = nodes.nodes[nodes.leader("orders")]
    with quiver.connect(nodes.address) as client:
        client.publish("orders", b"before", partition=0)
        begun = time.monotonic()
        leader.kill()
        client.publish("orders", b"after", partition=0)
        return time.monotonic() - begun


def _connections(pid: int) -> int:
    """Established TCP connections of a process."""
    own = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(str(each.readlink()))
        except OSError:  # closed meanwhile
            continue
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "01" and f"socket:[{row[9]}]" in own for row in rows)


def measure_partitions(scratch: Path, etcd: str, counts: Iterable[int]) -> Iterator[tuple[str, ...]]:
    """One cluster of six units; topics of 1,000 partitions are added."""
    nodes = Nodes(scratch, etcd, "partitions")
    try:
        nodes.start()
        with quiver.connect(nodes.address, timeout=300) as client:
            before = max(map(resident_bytes, nodes.pids))
            there = 0
            for count in counts:
                while there < count:
                    added = min(1_000, count - there)
                    client.topics.create(f"wide-{there}", partitions=added)
                    there += added
                nodes.await_settled()
                memory = max(map(resident_bytes, nodes.pids))
                each = f"{(memory - before) / there / 1024:.1f} KiB" if there else "-"
                keys = asyncio.run(_keys(etcd, "partitions"))
                stored = sum(sum(sizes) for sizes in keys.values())
                yield f"{there:,}", f"{memory / _MIB:.0f} MiB", each, f"{stored:,}"
    finally:
        nodes.discard()


def measure_keys(scratch: Path, etcd: str) -> list[tuple[str, ...]]:
    nodes = Nodes(scratch, etcd, "keys")
    try:
        nodes.start()
        with quiver.connect(nodes.address) as client:
            for number in range(20):
                client.topics.create(f"orders-of-region-{number}", partitions=100)
                client.publish(f"orders-of-region-{number}", b"first")
                with client.work(f"orders-of-region-{number}", group=f"billing-{number}") as jobs:
                    next(iter(jobs)).ack()
        found = asyncio.run(_keys(etcd, "keys"))
    finally:
        nodes.discard()
    return [
        (f"`{kind}`", str(len(sizes)), str(round(sum(sizes) / len(sizes)))) for kind, sizes in sorted(found.items())
    ]


async def _keys(etcd: str, name: str) -> dict[str, list[int]]:
    """Sizes of keys with their values, as etcd has them, by the kind of the key."""
    address = parse_etcd_address(f"etcd://{etcd}/{name}")
    coordination = EtcdCoordination(address)
    try:
        items = (await coordination.range("")).items
    finally:
        await coordination.close()
    kinds = Counter(item.key.rpartition("/")[0] for item in items)
    found: dict[str, list[int]] = {}
    for item in items:
        folder = item.key.rpartition("/")[0]
        kind = f"{folder}/*" if kinds[folder] > 1 or folder else item.key
        found.setdefault(kind, []).append(len(address.prefix) + len(item.key) + len(item.value))
    return found
