"""Finding the function that `quiver work` runs."""

import importlib
import os
import sys
import traceback
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
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidRequest(problem=f"there is no module {module_name!r} here") from error
        raise _failed(module_name, error) from error
    except Exception as error:
        raise _failed(module_name, error) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidRequest(problem=f"module {module_name!r} has no function {name!r}")
    return found  # type: ignore[no-any-return]


def _failed(module_name: str, error: Exception) -> InvalidRequest:
    """Shows where the user's code failed, without the frames of the import machinery."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return InvalidRequest(problem=f"module {module_name!r} cannot be imported:\n{''.join(lines).rstrip()}")


def _is_machinery(filename: str) -> bool:
    return filename == __file__ or filename == importlib.__file__ or filename.startswith("<frozen importlib")
