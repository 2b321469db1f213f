"""What stream groups of this worker ask of other owners themselves."""

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.routing.groups.queue_owners import LinkedGroupQueues
from quiver.routing.owners import Owners
from quiver.routing.polling.linked_takes import LinkedTakes
from quiver.routing.queues.service import RoutedQueues
from quiver.routing.scatter import Scatter
from quiver.routing.streams.group_owners import LinkedGroups
from quiver.routing.streams.partition_owners import LinkedPartitions
from quiver.routing.streams.service import RoutedStreams
from quiver.streams.owners.own import OwnQueues


def share_streams(local: Broker, owners: Owners, peers: Peers, streams: RoutedStreams, queues: RoutedQueues) -> None:
    scatter, takes = Scatter(peers), LinkedTakes(local.metadata.catalogue, peers, queues)
    local.streams.owners.use(
        LinkedPartitions(local.streams.own_partitions, owners, peers, takes),
        LinkedGroups(local.streams.positions, streams, scatter),
        LinkedGroupQueues(OwnQueues(local.queues), owners, scatter),
    )
