"""The routes, by capability."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.routes.cluster.health import cluster_health_routes
from quiver.gateways.http.routes.cluster.partitions import partition_routes
from quiver.gateways.http.routes.cluster.reassignments import reassignment_routes
from quiver.gateways.http.routes.console.console import console_routes
from quiver.gateways.http.routes.dead_letters.dead_letters import dead_letter_routes
from quiver.gateways.http.routes.dead_letters.jobs import job_routes
from quiver.gateways.http.routes.delays import delayed_routes
from quiver.gateways.http.routes.groups.groups import group_routes
from quiver.gateways.http.routes.groups.membership import membership_routes
from quiver.gateways.http.routes.groups.offsets import group_offset_routes
from quiver.gateways.http.routes.groups.poll import poll_routes
from quiver.gateways.http.routes.messages.life import life_routes
from quiver.gateways.http.routes.messages.publish import publish_routes
from quiver.gateways.http.routes.messages.read import read_routes
from quiver.gateways.http.routes.metrics.metrics import metrics_routes
from quiver.gateways.http.routes.metrics.overview import overview_routes
from quiver.gateways.http.routes.node.cluster import cluster_routes
from quiver.gateways.http.routes.node.documents import DocumentRoutes
from quiver.gateways.http.routes.node.health import Readiness, health_routes
from quiver.gateways.http.routes.node.node import node_routes
from quiver.gateways.http.routes.node.process import process_routes
from quiver.gateways.http.routes.node.support_bundle import support_bundle_routes
from quiver.gateways.http.routes.queues.depth import queue_routes
from quiver.gateways.http.routes.queues.leases import lease_routes
from quiver.gateways.http.routes.queues.receive import receive_routes
from quiver.gateways.http.routes.queues.settle import settle_routes
from quiver.gateways.http.routes.queues.stats import queue_stats_routes
from quiver.gateways.http.routes.schedules import schedule_routes
from quiver.gateways.http.routes.search.search import search_routes
from quiver.gateways.http.routes.search.tail import tail_routes
from quiver.gateways.http.routes.topics.compaction import compaction_routes
from quiver.gateways.http.routes.topics.topics import topic_routes
from quiver.gateways.http.routes.traces import trace_routes
from quiver.gateways.http.routes.transactions.transactions import transaction_routes

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


def all_routes(broker: "Facade", node: NodeInfo, readiness: Readiness, *more: Routes) -> Routes:
    """Every route; the busiest first, because they are tried in this order. `more` are those of other interfaces."""
    routes = _merged(
        publish_routes(broker),
        receive_routes(broker),
        settle_routes(broker),
        read_routes(broker),
        life_routes(broker),
        trace_routes(broker),
        poll_routes(broker),
        membership_routes(broker),
        group_offset_routes(broker),
        group_routes(broker),
        transaction_routes(broker),
        topic_routes(broker),
        queue_routes(broker),
        queue_stats_routes(broker),
        lease_routes(broker),
        schedule_routes(broker),
        dead_letter_routes(broker),
        job_routes(broker),
        delayed_routes(broker),
        compaction_routes(broker),
        search_routes(broker),
        tail_routes(broker),
        health_routes(broker, readiness),
        node_routes(broker, node),
        overview_routes(broker, node, readiness),
        metrics_routes(broker),
        process_routes(broker, node, readiness.data_dir),
        cluster_routes(broker, readiness.data_dir),
        partition_routes(broker),
        cluster_health_routes(broker),
        reassignment_routes(broker),
        console_routes(),
        *more,
    )
    whole = _merged(routes, support_bundle_routes(routes, broker.clock))
    return DocumentRoutes(whole, node.version).routes


def own_routes(node: NodeInfo, *interfaces: "Callable[[Facade], Routes]") -> "Callable[[Facade, Readiness], Routes]":
    """For a gateway: Quiver's routes, and those of other interfaces."""
    return lambda broker, readiness: all_routes(
        broker, node, readiness, *(interface(broker) for interface in interfaces)
    )


def _merged(*parts: Routes) -> dict[str, dict[str, Operation]]:
    merged: dict[str, dict[str, Operation]] = {}
    for part in parts:
        for path, operations in part.items():
            merged.setdefault(path, {}).update(operations)
    return merged
