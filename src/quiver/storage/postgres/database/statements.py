"""The SQL of the engine, by name: `sql/statements.sql`, where each statement begins with `-- name`."""

from functools import cache
from importlib.resources import files


@cache
def statements() -> dict[str, str]:
    text = files(__package__).joinpath("sql/statements.sql").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for block in text.split("\n-- "):
        heading, _, statement = block.removeprefix("-- ").partition("\n")
        found[heading.partition(":")[0].strip()] = statement.strip()
    return found


def sql(name: str) -> str:
    return statements()[name]
