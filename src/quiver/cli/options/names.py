"""Names of topics and groups as arguments; shells complete them by asking the broker."""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from quiver.cli.connection import ADDRESS_VARIABLE, DEFAULT_ADDRESS

if TYPE_CHECKING:
    from quiver.client import Client

_COMPLETION_SECONDS = 1.0

Completer = Callable[[typer.Context, str], list[str]]


def completer(list_names: Callable[["Client"], Iterable[str]]) -> Completer:
    """Completes names that begin with what was typed; none when the broker does not respond quickly."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        import quiver

        address = context.params.get("address") or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        try:
            with quiver.connect(address, timeout=_COMPLETION_SECONDS) as q:
                return sorted({name for name in list_names(q) if name.startswith(incomplete)})
        except Exception:  # there is nowhere to show an error while a shell completes
            return []

    return complete


complete_topics = completer(lambda q: q.topics.list())
complete_groups = completer(lambda q: (group.id for group in q.groups.list()))

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics, show_default=False)]
TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topics, show_default=False)
]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups, show_default=False)]
GroupsArgument = Annotated[
    list[str], typer.Argument(metavar="GROUP...", autocompletion=complete_groups, show_default=False)
]
