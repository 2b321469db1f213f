"""A node of a replicated cluster whose coordination is etcd."""

from quiver.app.cluster.replicated import NewReplicatedBroker, StartedNode, start_replicated
from quiver.app.config import Config
from quiver.coordination.etcd.address import EtcdAddress, parse_etcd_address
from quiver.coordination.etcd.coordination import EtcdCoordination
from quiver.model.errors import InvalidSetting
from quiver.storage.local.storage import LocalStorage


async def start_on_etcd(config: Config, storage: LocalStorage, new_broker: NewReplicatedBroker) -> StartedNode:
    """`storage` is open, and this function's; nothing stays open after a failure."""
    try:
        coordination = EtcdCoordination(etcd_address(config))
    except BaseException:
        await storage.close()
        raise
    return await start_replicated(config, storage, coordination, new_broker)


def etcd_address(config: Config) -> EtcdAddress:
    """Hosts alone are enough: the name of the cluster is that of the keys."""
    text = (config.etcd or "").strip()
    address = text if "://" in text else f"etcd://{text}"
    scheme, _, rest = address.partition("://")
    hosts, _, query = rest.partition("?")
    if "/" not in hosts.rstrip("/"):
        address = f"{scheme}://{hosts.rstrip('/')}/{config.cluster}" + (f"?{query}" if query else "")
    try:
        found = parse_etcd_address(address)
    except ValueError as error:
        raise InvalidSetting(setting="etcd", problem=str(error)) from error
    if found.name != config.cluster:
        problem = f"the address names the keys of {found.name}, and the cluster is {config.cluster}"
        raise InvalidSetting(setting="etcd", problem=problem)
    return found
