"""Writes the synchronous SDK from the asynchronous one: `unasync.py` writes, `unasync.py --check` compares.

src/quiver/client/_async/**.py -> src/quiver/client/_sync/**.py. The two differ only in words: `await` and `async` go,
`Async` goes from the names of classes, `__await__` goes whole, and the back end is the one with threads.
"""

import re
import subprocess
import sys
from pathlib import Path

_CLIENT = Path(__file__).resolve().parent.parent / "src" / "quiver" / "client"
_SOURCE, _TARGET = _CLIENT / "_async", _CLIENT / "_sync"
_NOTICE = "# Generated from quiver/client/_async by scripts/unasync.py: do not edit.\n"

_WORDS = [
    (r"^    def __await__\(self\).*\n(?: {8}.*\n)+\n", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"_backend_async\b", "_backend_sync"),
    (r"quiver\.client\._async\b", "quiver.client._sync"),
    (r"as it is written: asynchronous\. .*$", 'for threads and blocking sockets."""'),
]


def translated(text: str) -> str:
    """The synchronous twin of an asynchronous module."""
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return _NOTICE + text


def formatted(text: str) -> str:
    """As `ruff format` leaves it, imports sorted and none unused, so that checks of the tree pass."""
    for arguments in (["check", "--select", "I,F401", "--fix", "--quiet"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(_TARGET / "module.py"), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def modules(folder: Path) -> dict[str, str]:
    """The text of every module under a folder, by its path there."""
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.py"))}


def main(check: bool) -> int:
    expected = {name: formatted(translated(text)) for name, text in modules(_SOURCE).items()}
    present = modules(_TARGET)
    if check:
        stale = sorted(name for name in expected.keys() | present if expected.get(name) != present.get(name))
        for name in stale:
            print(f"src/quiver/client/_sync/{name} is not what scripts/unasync.py writes; run it", file=sys.stderr)
        return 1 if stale else 0
    for name in present.keys() - expected.keys():
        (_TARGET / name).unlink()
    for name, text in expected.items():
        if present.get(name) != text:
            (_TARGET / name).parent.mkdir(parents=True, exist_ok=True)
            (_TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
