"""What gateways call: the broker itself if this process owns everything, otherwise the routed one."""

from quiver.broker.broker import Broker
from quiver.routing.broker import RoutedBroker

Facade = Broker | RoutedBroker
