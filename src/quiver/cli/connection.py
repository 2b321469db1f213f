"""How commands reach a broker, and names for shells to complete."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from quiver.cli.client_log import show_warnings

if TYPE_CHECKING:
    from quiver.client import Client

DEFAULT_ADDRESS = "localhost:7481"
ADDRESS_VARIABLE = "QUIVER_ADDRESS"
_COMPLETION_SECONDS = 1.0

AddressOption = Annotated[
    str,
    typer.Option(
        "--address",
        "-a",
        envvar=ADDRESS_VARIABLE,
        help="The broker's native address; of several with commas between them, the first that answers.",
    ),
]


def connect(address: str, *, timeout: str | None = None) -> "Client":
    """A connected SDK client; use it in a `with` block. With a timeout the broker may come up until then."""
    import quiver
    from quiver.client.connection.address import parse_bootstrap

    show_warnings()
    if timeout is None:
        return quiver.connect(address)
    return quiver.Client(parse_bootstrap(address), timeout=timeout).connect(timeout)


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    """Topic names that begin with what was typed; none when the broker cannot be asked quickly."""
    import quiver

    address = context.params.get("address") or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
    try:
        with quiver.connect(address, timeout=_COMPLETION_SECONDS) as q:
            return sorted(name for name in q.topics.list() if name.startswith(incomplete))
    except Exception:  # a shell that completes has no place for an error
        return []


TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics, show_default=False)]
TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topics, show_default=False)
]
