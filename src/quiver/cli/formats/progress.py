"""A progress bar on standard error while bulk work runs; nothing when that is not a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, int], None]
"""Called with more messages and more bytes."""


@contextmanager
def progress(what: str, total_bytes: int | None, *, wanted: bool | None = None) -> Iterator[Advance]:
    """Shows messages, rate and, when the total is known, the share done and the time left."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    counted = TextColumn("{task.fields[messages]:,} messages")
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        counted,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total_bytes, messages=0)
        done = 0

        def advance(messages: int, size_bytes: int) -> None:
            nonlocal done
            done += messages
            bar.update(task, advance=size_bytes, messages=done)

        yield advance


def _ignore(messages: int, size_bytes: int) -> None:
    return
