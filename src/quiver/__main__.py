"""The `quiver` command, also as `python -m quiver`."""

import sys


def main() -> None:
    from quiver.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
