"""Names of fields that become columns: Spark and Delta do not tell names apart by case."""

from collections.abc import Callable, Iterable, Sequence

from quiver.model.errors import InvalidRequest


def distinct(names: Iterable[str], column: Callable[[str], str] = str) -> list[str]:
    """Of names whose columns differ by case only, or not at all, the first in order: capitals come first."""
    found: dict[str, str] = {}
    for name in sorted(names):
        found.setdefault(column(name).lower(), name)
    return sorted(found.values())


def check_distinct(names: Sequence[str]) -> None:
    """Raises InvalidRequest if two names are the same column."""
    lowered = [name.lower() for name in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            raise InvalidRequest(
                problem=f"two fields of the schema make the column {name!r}, and case makes no difference; leave one"
                " of them out"
            )
