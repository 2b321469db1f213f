"""Whether what a peer needs is installed here."""

import glob
import importlib.util
import shutil
import sys
from pathlib import Path

PEERS_HINT = "make bench-peers installs it"


def find_program(name: str, *patterns: str) -> str | None:
    """The path of a program: beside this Python, on the PATH, or where a pattern finds it (the newest wins)."""
    beside = Path(sys.executable).parent / name
    if beside.exists():
        return str(beside)
    found = shutil.which(name)
    if found is not None:
        return found
    matches = sorted(path for pattern in patterns for path in glob.glob(pattern))
    return matches[-1] if matches else None


def absence(*, program: str | None = None, found: str | None = None, module: str | None = None) -> str | None:
    """A reason to skip, or None when both the program and the Python client are there."""
    if program is not None and found is None:
        return f"{program} is not installed ({PEERS_HINT})"
    if module is not None and importlib.util.find_spec(module) is None:
        return f"the Python package {module} is not installed (scripts/setup bench installs it)"
    return None
