"""How commands reach a broker."""

from typing import TYPE_CHECKING, Annotated

import typer

from quiver.cli.client_log import show_warnings

if TYPE_CHECKING:
    from quiver.client import Client

DEFAULT_ADDRESS = "localhost:7481"
ADDRESS_VARIABLE = "QUIVER_ADDRESS"

AddressOption = Annotated[
    str,
    typer.Option(
        "--address",
        "-a",
        envvar=ADDRESS_VARIABLE,
        help="The broker's native address; of several with commas between them, the first that responds.",
    ),
]


def connect(address: str, *, timeout: str | None = None) -> "Client":
    """A connected SDK client, for a `with` block. With a timeout, the broker may come up within that time."""
    import quiver
    from quiver.client.connection.address import parse_bootstrap

    show_warnings()
    if timeout is None:
        return quiver.connect(address)
    return quiver.Client(parse_bootstrap(address), timeout=timeout).connect(timeout)
