"""Time and connections come from the client's environment, so that a simulator can have its own."""

import socket

import quiver
from quiver.client import AsyncClient, AsyncEnvironment, Client, Environment
from quiver.client.connection.address import parse_bootstrap
from quiver.system.network import TcpNetwork
from unit.client.fake_native_broker import FakeBroker


class OneBroker:
    """Every name leads to the same broker."""

    def __init__(self, broker: FakeBroker) -> None:
        host, _, port = broker.address.rpartition(":")
        self.place = host, int(port)
        self.dialled: list[tuple[str, int]] = []


class AsyncNetwork(OneBroker):
    async def listen(self, host: str, port: int) -> tuple[list[socket.socket], int]:
        raise AssertionError("clients do not listen")

    async def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        self.dialled.append((host, port))
        return await TcpNetwork().dial(*self.place, timeout)


class BlockingNetwork(OneBroker):
    def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        self.dialled.append((host, port))
        return socket.create_connection(self.place, timeout)


class FixedClock:
    def now_ms(self) -> int:
        return 1_234_567

    def monotonic(self) -> float:
        return 100.0


async def test_the_asynchronous_client_dials_by_its_network_and_reads_its_clock() -> None:
    with FakeBroker(orders=1) as broker:
        network = AsyncNetwork(broker)
        environment = AsyncEnvironment(clock=FixedClock(), network=network)
        async with AsyncClient(parse_bootstrap("simulated:7481"), environment=environment) as q:
            await q.publish("orders", b"a")
            [message] = [message async for message in q.read("orders", end="latest")]
        assert message.timestamp == 1_234_567
        assert set(network.dialled) == {("simulated", 7481)}


def test_so_does_the_synchronous_one() -> None:
    with FakeBroker(orders=1) as broker:
        network = BlockingNetwork(broker)
        with Client(parse_bootstrap("simulated:7481"), environment=Environment(network=network)) as q:
            assert isinstance(q, quiver.Client)
            q.publish("orders", b"a")
        assert network.dialled == [("simulated", 7481)]
