"""Failures of one among many: the others are tried first."""

import contextlib
import logging
from collections.abc import Iterator

from quiver.model.errors import Closed, QuiverError

logger = logging.getLogger(__name__)


class Failures:
    """Expected failures are logged, and their work is repeated later. `check` raises the first unexpected one."""

    def __init__(self) -> None:
        self._unexpected: Exception | None = None

    @contextlib.contextmanager
    def of(self, what: str) -> Iterator[None]:
        try:
            yield
        except Closed as error:  # it was removed meanwhile, so there is nothing to try again
            logger.debug("%s is no longer needed: %s", what, error)
        except (QuiverError, OSError) as error:
            logger.warning("%s failed, will try again: %s", what, error)
        except Exception as error:
            if self._unexpected is not None:
                logger.exception("%s failed", what)
            self._unexpected = self._unexpected or error

    def check(self) -> None:
        """Called last; raises the first unexpected failure."""
        if self._unexpected is not None:
            raise self._unexpected
