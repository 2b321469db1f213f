"""Names of etcd that have several addresses: each is a member of its own."""

import socket
from collections.abc import Sequence
from contextlib import closing

import pytest

from etcd_cluster import EtcdCluster, program
from quiver.coordination.etcd.address import Endpoint, parse_etcd_address
from quiver.coordination.etcd.coordination import EtcdCoordination
from quiver.coordination.etcd.members import Members
from quiver.coordination.port import Put
from quiver.system.network import addresses_of

NAME = Endpoint("etcd.test", 2379)
LITERAL = Endpoint("10.9.9.9", 2379)


class Names:
    """A resolver that knows what a test tells it."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: Sequence[str] = addresses
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        if not self.addresses:
            raise OSError("no such name")
        return self.addresses


async def in_turn(members: Members, count: int) -> list[str]:
    found = []
    for _ in range(count):
        await members.look_up()
        found.append(str(members.current))
        members.leave()
    return found


async def test_every_address_is_used_in_turn() -> None:
    names = Names("10.0.0.1", "10.0.0.2", "fd00::3")
    assert await in_turn(Members([NAME, LITERAL], names), 4) == [
        "etcd.test:2379 (10.0.0.1)",
        "etcd.test:2379 (10.0.0.2)",
        "etcd.test:2379 (fd00::3)",
        "10.9.9.9:2379",
    ]
    assert names.asked == [("etcd.test", 2379)], "an address is not looked up, and a name once"


async def test_names_are_looked_up_again_when_all_were_left() -> None:
    names = Names("10.0.0.1", "10.0.0.2")
    members = Members([NAME], names)
    await in_turn(members, 2)
    names.addresses = ("10.0.0.2", "10.0.0.3")
    assert await in_turn(members, 2) == ["etcd.test:2379 (10.0.0.2)", "etcd.test:2379 (10.0.0.3)"]
    assert len(names.asked) == 2


async def test_a_name_with_one_address_or_none_is_tried_as_it_is() -> None:
    for names in (Names("10.0.0.1"), Names()):
        assert await in_turn(Members([NAME, LITERAL], names), 2) == ["etcd.test:2379", "10.9.9.9:2379"]


async def test_the_system_is_asked() -> None:
    assert {"127.0.0.1", "::1"} & set(await addresses_of("localhost", 2379))


@pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")
async def test_an_address_that_accepts_and_never_responds_is_left(etcd: EtcdCluster) -> None:
    port = etcd.members[0].port
    engine = EtcdCoordination(parse_etcd_address(f"etcd://etcd.test:{port}/names"))
    engine.client.members.resolve = Names("127.0.0.2", "127.0.0.1")
    with closing(socket.create_server(("127.0.0.2", port))):
        assert await engine.get("a") is None, "a read is repeated at the other address"
        await engine.commit([], [Put("a", b"1")])
        found = await engine.get("a")
        assert found is not None
        assert found.value == b"1"
        assert engine.client.endpoint.address == "127.0.0.1"
        await engine.close()
