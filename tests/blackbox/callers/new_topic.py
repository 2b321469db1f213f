"""Topics of a test's own on a broker that other tests use too."""

import uuid
from typing import Any

import quiver


def new_topic(client: quiver.Client, **settings: Any) -> str:
    """Creates a topic with a name that nobody else uses."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    client.topics.create(name, **settings)
    return name
