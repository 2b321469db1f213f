"""The examples in docs/frame-format.md run."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "frame-format.md"


def test_the_examples_run() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert examples
    names: dict[str, object] = {}
    for example in examples:
        exec(example, names)
