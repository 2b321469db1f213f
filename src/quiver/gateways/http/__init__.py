"""HTTP: JSON and MessagePack over the broker's public verbs."""

from quiver.gateways.http.gateway import HttpGateway
from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.settings import HttpSettings

__all__ = ["HttpGateway", "HttpSettings", "NodeInfo"]
