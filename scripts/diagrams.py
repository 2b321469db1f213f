"""Writes the state diagrams in the documents from the state tables in the code: diagrams.py [--check]"""

import sys
from pathlib import Path

from quiver.streams.membership import TRANSITIONS

DOCUMENT = Path(__file__).parent.parent / "docs" / "groups.md"
BEGIN, END = "<!-- group states: made by scripts/diagrams.py -->", "<!-- end of group states -->"


def group_states() -> str:
    lines = [f"    {source} --> {target}: {what}" for source, what, target in TRANSITIONS]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> empty", *lines, "    dead --> [*]", "```"])


def with_diagram(text: str) -> str:
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{group_states()}\n{END}{after}"


def main() -> int:
    old = DOCUMENT.read_text()
    new = with_diagram(old)
    if "--check" in sys.argv[1:]:
        if old != new:
            print(f"{DOCUMENT} is not what the state table says; run scripts/diagrams.py", file=sys.stderr)
        return int(old != new)
    DOCUMENT.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
