"""Warnings of the SDK, on standard error."""

import logging
import sys


class _StandardError(logging.Handler):
    """A line per warning in the form of errors; a progress bar that is shown stays below it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"quiver: {record.getMessage()}", file=sys.stderr, flush=True)


def show_warnings() -> None:
    """For commands that use the SDK; does nothing where log messages go somewhere already."""
    logger = logging.getLogger("quiver")
    if not logger.hasHandlers():
        logger.addHandler(_StandardError(logging.WARNING))
