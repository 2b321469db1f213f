"""Finding the function that `quiver work` runs."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from quiver.model.errors import InvalidRequest


def load_handler(target: str) -> Callable[[Any], Any]:
    """The function of `module:function`; the module is looked for in the current directory too."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise InvalidRequest(problem=f"{target!r} is not of the form module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise InvalidRequest(problem=f"there is no module {module_name!r} here") from error
        raise
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidRequest(problem=f"module {module_name!r} has no function {name!r}")
    return found  # type: ignore[no-any-return]
