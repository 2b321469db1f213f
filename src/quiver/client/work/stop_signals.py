"""SIGTERM and Ctrl-C as a request to finish, for programs that do nothing but work."""

import asyncio
import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stop_signals(stop: Callable[[], object]) -> Iterator[list[str]]:
    """The first signal calls `stop`, between two steps of the main thread; a second one has its usual effect.

    Signals that the program handles itself are left alone, and so are all of them outside the main thread. Yields the
    name of the signal, once there was one.
    """
    received: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: handler for number in _NUMBERS if _is_default(handler := signal.getsignal(number))}

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is on_signal:
                signal.signal(number, handler)

    def on_signal(number: int, frame: object) -> None:
        restore()
        received.append(signal.Signals(number).name)
        stop()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield received
    finally:
        restore()


def _is_default(handler: Any) -> bool:
    """What Python, or a running `asyncio.run`, has put there."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    return isinstance(handler, functools.partial) and isinstance(
        getattr(handler.func, "__self__", None), asyncio.Runner
    )
