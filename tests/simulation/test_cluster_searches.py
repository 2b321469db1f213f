"""A search in a cluster: the node that got it runs it, and every node can be asked for it."""

import pytest
from tests.simulation.simulated_cluster import SimulatedCluster

from quiver.model.errors import SearchNotFound
from quiver.protocol.search_messages import GetSearch
from quiver.testing.simulation.processes import ClientProcess


async def begin(process: ClientProcess) -> str:
    search = process.client.search("t", "value.n >= 2")
    found = [message.value async for message in search]
    assert sorted(found) == [b'{"n": 2}', b'{"n": 3}']
    return search.progress.id


def test_a_search_is_found_at_every_node() -> None:
    ids: list[str] = []

    async def at_the_first(process: ClientProcess) -> None:
        await process.client.topics.create("t", partitions=3)
        for number in range(4):
            await process.client.publish("t", b'{"n": %d}' % number, partition=number % 3)
        ids.append(await begin(process))

    async def at_another(process: ClientProcess) -> None:
        search = process.client.search("t", "value.n >= 2")
        progress = await search._ask(GetSearch(ids[0], 0, 0))
        assert (progress.state, progress.matched) == ("done", 2)
        for unknown in ("node.9-ab", "7-ab", "ab", f"{ids[0]}0"):
            with pytest.raises(SearchNotFound):
                await search._ask(GetSearch(unknown, 0, 0))

    with SimulatedCluster() as cluster:
        cluster.do(at_the_first, "node-1")
        cluster.do(at_another, "node-2")
