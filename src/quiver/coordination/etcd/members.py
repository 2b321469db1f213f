"""The members of an etcd that are called: the hosts of its address, with every address of those that are names."""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Sequence

from quiver.coordination.etcd.address import Endpoint
from quiver.system.network import addresses_of

_LOOK_UP_SECONDS = 1.0

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name. OSError where there are none."""


class Members:
    """One is in use, until it is left for the next one. Names are looked up before the first use, and again when all
    members have been left: addresses may have come and gone."""

    def __init__(self, hosts: Sequence[Endpoint], resolve: Resolve = addresses_of) -> None:
        self.resolve = resolve
        self._hosts = self._all = tuple(hosts)
        self._position = 0
        self._are_known = False
        self._looking_up = asyncio.Lock()

    @property
    def current(self) -> Endpoint:
        return self._all[self._position]

    @property
    def is_first(self) -> bool:
        return self._position == 0

    def leave(self) -> None:
        self._position = (self._position + 1) % len(self._all)
        self._are_known = self._are_known and not self.is_first

    async def look_up(self) -> None:
        """Does nothing while the addresses are known. A name that cannot be looked up is tried as it is."""
        async with self._looking_up:
            if self._are_known:
                return
            current = self.current
            self._all = await expanded(self._hosts, self.resolve)
            self._position = self._all.index(current) if current in self._all else 0
            self._are_known = True


async def expanded(hosts: Sequence[Endpoint], resolve: Resolve = addresses_of) -> tuple[Endpoint, ...]:
    """Each name that has several addresses once for each of them."""
    found = await asyncio.gather(*(_addresses(host, resolve) for host in hosts))
    return tuple(dict.fromkeys(endpoint for endpoints in found for endpoint in endpoints))


async def _addresses(endpoint: Endpoint, resolve: Resolve) -> list[Endpoint]:
    if endpoint.address or _is_address(endpoint.host):
        return [endpoint]
    try:
        async with asyncio.timeout(_LOOK_UP_SECONDS):
            addresses = await resolve(endpoint.host, endpoint.port)
    except (OSError, UnicodeError):
        return [endpoint]
    return [endpoint._replace(address=each) for each in addresses] if len(addresses) > 1 else [endpoint]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
