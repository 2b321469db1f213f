"""The `quiver` command, also as `python -m quiver`."""

import sys

_EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "yaml": "cli",
    "httptools": "server",
    "uvloop": "server",
    "zstandard": "server",
}
"""Packages that `pip install quivermq` leaves out, and what brings them."""


def main() -> None:
    try:
        from quiver.cli.main import run

        sys.exit(run(sys.argv[1:]))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        extra = "server" if "serve" in sys.argv[1:] else _EXTRAS[package]
        sys.exit(f"quiver: {package} is not installed here; pip install 'quivermq[{extra}]'")


if __name__ == "__main__":
    main()
