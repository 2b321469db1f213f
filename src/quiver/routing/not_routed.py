"""Calls that do not reach other workers."""

from typing import Any, Never

from quiver.model.errors import NotSupported


class NotRouted:
    """Stands for a capability: its calls are refused, except those that stay in this process.

    `local` has these by name, as `members.connections`.
    """

    def __init__(self, capability: str, **local: Any) -> None:
        self._capability = capability
        self.__dict__.update(local)

    def __getattr__(self, name: str) -> Any:
        return NotRouted(f"{self._capability}.{name}")

    def __call__(self, *arguments: object, **options: object) -> Never:
        raise NotSupported(feature=f"{self._capability} of a broker with several workers")
