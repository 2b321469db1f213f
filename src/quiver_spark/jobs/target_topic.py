"""The topic that a job writes to."""

import contextlib

from quiver.model.errors import TopicExists


def make_topic(name: str, bootstrap: str, partitions: int) -> None:
    """Creates a topic unless it exists."""
    import quiver

    with quiver.connect(bootstrap) as client, contextlib.suppress(TopicExists):
        if name not in client.topics.list():
            client.topics.create(name, partitions=max(1, partitions))
