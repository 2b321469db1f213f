"""The files of the console, read once. A request can only name one of them, so no path leads elsewhere."""

import hashlib
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

_MEDIA_TYPES = {
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_PAGE = "index.html"
_VERSION = b"@version@"
_PRELOADS = b"<!-- modules -->"


class Asset(NamedTuple):
    content: bytes
    content_type: bytes


class ConsoleAssets:
    """Every file by its path below `quiver/console`, and the page that loads them."""

    @cached_property
    def files(self) -> dict[str, Asset]:
        found: dict[str, Asset] = {}
        for path, entry in _walk(files("quiver").joinpath("console"), ""):
            kind = _MEDIA_TYPES.get(path[path.rfind(".") :])
            if kind is not None:
                found[path] = Asset(entry.read_bytes(), kind)
        return found

    @cached_property
    def version(self) -> str:
        """Changes with any file, so that browsers may keep what they have for as long as it is the same."""
        digest = hashlib.sha256(files("quiver").joinpath("console", _PAGE).read_bytes())
        for path, asset in sorted(self.files.items()):
            digest.update(path.encode() + b"\0" + asset.content + b"\0")
        return digest.hexdigest()[:16]

    @cached_property
    def page(self) -> bytes:
        """The page; it names the modules that every view needs, so that they are loaded at the same time."""
        needed = sorted(path for path in self.files if path.startswith(("lib/", "parts/")))
        preloads = b"\n".join(
            b'<link rel="modulepreload" href="console/static/%s/%s">' % (_VERSION, path.encode())
            for path in needed
            if path.endswith(".js")
        )
        page = files("quiver").joinpath("console", _PAGE).read_bytes()
        return page.replace(_PRELOADS, preloads).replace(_VERSION, self.version.encode())


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found = []
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        found += _walk(entry, f"{path}/") if entry.is_dir() else [(path, entry)]
    return found
