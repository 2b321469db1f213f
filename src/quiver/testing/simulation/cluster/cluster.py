"""A simulated cluster: its machines, and what etcd knows of its units."""

from collections.abc import Callable

from quiver.replication.unit import PREFIX, Unit, decode_unit
from quiver.testing.simulation.cluster.member import Member, Setting
from quiver.testing.simulation.cluster.member_process import ClusterShape
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.world import World


class Cluster:
    def __init__(
        self, world: World, network: SimulatedNetwork, shape: ClusterShape, on_error: Callable[[str], None]
    ) -> None:
        setting = Setting(world, network, shape, on_error)
        self.world, self.network, self.etcd, self.shape = world, network, setting.etcd, shape
        self.members = [Member(setting, number) for number in range(1, shape.nodes + 1)]

    @property
    def address(self) -> str:
        """Of all nodes, for clients."""
        return ",".join(member.name for member in self.members)

    def units(self) -> dict[int, Unit]:
        """By worker."""
        items = self.etcd.state.range(PREFIX).items
        return {int(item.key.removeprefix(PREFIX)): decode_unit(item.value) for item in items}

    def is_whole(self) -> bool:
        """Every node serves, and every unit is led by its first node and has all replicas in sync."""
        units = self.units().values()
        return (
            all(member.is_up for member in self.members)
            and len(units) == self.shape.workers
            and all(
                unit.leader == unit.replicas[0]
                and set(unit.isr) == set(unit.replicas)
                and not (unit.adding or unit.removing)
                for unit in units
            )
        )
