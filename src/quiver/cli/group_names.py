"""Names of groups on the command line, and for shells to complete."""

import os
from typing import Annotated

import typer

from quiver.cli.connection import DEFAULT_ADDRESS

_COMPLETION_SECONDS = 1.0


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """Group names that begin with what was typed; none when the broker cannot be asked quickly."""
    import quiver

    address = context.params.get("address") or os.environ.get("QUIVER_ADDRESS") or DEFAULT_ADDRESS
    try:
        with quiver.connect(address, timeout=_COMPLETION_SECONDS) as q:
            return sorted(group.id for group in q.groups.list() if group.id.startswith(incomplete))
    except Exception:  # a shell that completes has no place for an error
        return []


GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups, show_default=False)]
GroupsArgument = Annotated[
    list[str], typer.Argument(metavar="GROUP...", autocompletion=complete_groups, show_default=False)
]
