"""`quiver top`: what a broker does now, in a terminal."""

import sys
from select import select
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.output import Output, OutputOption, show_document
from quiver.cli.http_source import HttpOption
from quiver.cli.lazy_group import command_app

if TYPE_CHECKING:
    from quiver.cli.live.overview_feed import Look, OverviewFeed

_NOTHING_NEW_SECONDS = 1.0


def top(
    once: Annotated[bool, typer.Option("--once", help="Print once and end, as without a terminal.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a broker does: rates, busy topics, groups with work left; a new frame per second.

    Keys: q quits, space pauses, p r s n sort the topics by published, read, size and name.
    """
    from quiver.cli.live.overview_feed import OverviewFeed
    from quiver.system.clock import SystemClock

    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with connect(address) as q:
        feed = OverviewFeed(q, http, SystemClock())
        if once or not is_terminal or output is not Output.TABLE:
            _print_once(feed.once(), output)
        else:
            _watch(feed)


def _print_once(look: "Look", output: Output) -> None:
    if output is not Output.TABLE:
        groups: list[dict[str, Any]] = [
            {"id": group.id, "kind": group.kind, "members": group.members, "lag": group.lag} for group in look.groups
        ]
        overview = {name: value for name, value in look.overview.items() if name != "history"}
        show_document(overview | {"group_list": groups}, output)
        return
    from rich.console import Console

    from quiver.cli.live.overview_screen import OverviewScreen

    Console(highlight=False, soft_wrap=True).print(OverviewScreen().render(look, is_live=False))


def _watch(feed: "OverviewFeed") -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from quiver.cli.live.keyboard import keyboard
    from quiver.cli.live.overview_screen import OverviewScreen

    screen, shown = OverviewScreen(), feed.once()
    feed.start()
    try:
        with (
            keyboard() as keys,
            Live(Text(), console=Console(highlight=False), screen=True, auto_refresh=False) as live,
        ):
            while not screen.is_ended:
                live.update(screen.render(shown), refresh=True)
                ready, _, _ = select([keys.fd, feed.fd], [], [], _NOTHING_NEW_SECONDS)
                if keys.fd in ready:
                    screen.press(keys.read() or "q")
                if feed.fd in ready:
                    feed.seen()
                if not screen.is_paused and feed.look is not None:
                    shown = feed.look
    except KeyboardInterrupt:
        return
    finally:
        feed.close()


app = command_app(top)
