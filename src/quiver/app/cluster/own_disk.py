"""Whose data a data directory has: that of one node of one cluster, as of its last start, or nothing yet."""

import asyncio
import hashlib
from pathlib import Path

import msgspec

from quiver.cluster.membership import records
from quiver.cluster.membership.records import NodeRecord, Setup
from quiver.coordination.port import ABSENT, Coordination, Expected, Put
from quiver.model.errors import InvalidSetting
from quiver.replication.unit import PREFIX, Unit, decode_unit
from quiver.storage.port import Storage
from quiver.system.files import Files

FILE = "cluster.json"
_INCARNATIONS = "cluster/incarnations"
_LEASE_SECONDS, _LOOK_SECONDS = 15.0, 0.2
"""The first is how long the lease of a process that was killed may last: longer than its two seconds when etcd had no
leader meanwhile."""


class Mark(msgspec.Struct, frozen=True):
    cluster: str
    cluster_id: str
    node: str
    incarnation: int = 0
    """Of the last start on this directory. Coordination has that of the last start that has joined, so a directory
    that was restored from an older copy is known by it."""


class OwnDisk:
    """Of a node that has not joined yet, so nobody makes it a leader meanwhile."""

    def __init__(self, directory: Path, files: Files, mark: Mark) -> None:
        self._path, self._directory, self._files, self._mark = directory / FILE, directory, files, mark

    async def take(self, storage: Storage, coordination: Coordination) -> int:
        """Returns the incarnation of this start. Raises InvalidSetting for a data directory of another node or
        cluster, or of a broker without a cluster.

        A node that comes back without its data, or with older data, leaves all sets first: it would count as having
        what it has lost.
        """
        found = self._read()
        if found is None:
            if await storage.list_logs():
                self._refuse("has the data of a broker that is in no cluster: use another directory")
            await self._leave_sets(coordination, "is empty")
        elif found.cluster_id != self._mark.cluster_id:
            self._refuse(f"belongs to the cluster {found.cluster} with the id {found.cluster_id}, not to this one")
        elif found.node != self._mark.node:
            self._refuse(f"belongs to node {found.node} of this cluster, not to node {self._mark.node}")
        elif found.incarnation < await self._joined(coordination):
            await self._leave_sets(coordination, "is from before the last start of this node")
        incarnation = await next_incarnation(coordination)
        self._write(msgspec.structs.replace(self._mark, incarnation=incarnation))
        return incarnation

    async def joined(self, coordination: Coordination, incarnation: int) -> None:
        """This start is a member: from now on older data is known to be older."""
        await coordination.commit([], [Put(records.joined_key(self._mark.node), b"%d" % incarnation)])

    async def _joined(self, coordination: Coordination) -> int:
        found = await coordination.get(records.joined_key(self._mark.node))
        return 0 if found is None else int(found.value)

    def _refuse(self, problem: str) -> None:
        raise InvalidSetting(setting="data_dir", problem=f"{self._directory} {problem}")

    def _read(self) -> Mark | None:
        if FILE not in self._files.names(self._directory):
            return None
        try:
            return msgspec.json.decode(self._files.read_file(self._path), type=Mark)
        except msgspec.MsgspecError as error:
            problem = f"{self._path} cannot be read: {error}"
            raise InvalidSetting(setting="data_dir", problem=problem) from error

    def _write(self, mark: Mark) -> None:
        self._files.write_file(self._path, msgspec.json.encode(mark) + b"\n", sync=True)
        self._files.sync_directory(self._directory)

    async def _leave_sets(self, coordination: Coordination, reason: str) -> None:
        node = int(self._mark.node)
        await self._await_end_of_others(coordination, reason)
        while True:
            units = await coordination.range(PREFIX)
            changes = {each: without_data(decode_unit(each.value), node) for each in units.items}
            lacking = [each.key for each, unit in changes.items() if unit is not None and not (unit.isr or unit.elr)]
            if lacking:
                self._refuse(
                    f"{reason}, and node {node} is the only one that has all of {', '.join(lacking)}: start it with"
                    " its data"
                )
            outcomes = [
                await coordination.commit([Expected(each.key, each.revision)], [Put(each.key, unit.key_value)])
                for each, unit in changes.items()
                if unit is not None
            ]
            if all(outcome.succeeded for outcome in outcomes):
                return

    async def _await_end_of_others(self, coordination: Coordination, reason: str) -> None:
        """The lease of a process that was killed ends by itself."""
        deadline = asyncio.get_running_loop().time() + _LEASE_SECONDS
        while (held := await coordination.get(records.node_key(self._mark.node))) is not None:
            if asyncio.get_running_loop().time() > deadline:
                record = records.decode(held.value, NodeRecord)
                problem = (
                    f"{self._mark.node} is in use by process {record.pid} on {record.host}, and {self._directory}"
                    f" {reason}: use another id"
                )
                raise InvalidSetting(setting="node_id", problem=problem)
            await asyncio.sleep(_LOOK_SECONDS)


def without_data(unit: Unit, node: int) -> Unit | None:
    """The unit without a member that has lost everything; None if it is no member."""
    if node not in unit.isr and node not in unit.elr:
        return None
    return unit.with_set(tuple(each for each in unit.isr if each != node), lost=(node,))


def cluster_id(setup: Setup) -> str:
    """The same for all nodes, and of no other cluster."""
    return hashlib.sha256(f"cluster {setup.secret}".encode()).hexdigest()[:16]


async def next_incarnation(coordination: Coordination) -> int:
    """A number that no start of any node had before."""
    while True:
        found = await coordination.get(_INCARNATIONS)
        number, revision = (1, ABSENT) if found is None else (int(found.value) + 1, found.revision)
        outcome = await coordination.commit([Expected(_INCARNATIONS, revision)], [Put(_INCARNATIONS, b"%d" % number)])
        if outcome.succeeded:
            return number
