"""Which columns of a DataFrame are written, and of which types they may be."""

from collections.abc import Sequence

from quiver.model.errors import InvalidRequest

TAKEN: dict[str, tuple[str, ...]] = {
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "headers": ("map<string,binary>", "map<string,string>"),
    "timestamp": ("timestamp",),
    "priority": ("string",),
    "partition": ("int",),
    "topic": ("string",),
}
"""Columns of messages and the Spark types they may have."""
_OF_BROKER = ("topic", "partition", "offset", "append_time")
"""Columns of a read that the broker sets itself."""


def check_written(
    types: Sequence[tuple[str, str]],
    *,
    use_partition_column: bool,
    use_topic_column: bool = False,
    include_headers: bool = True,
) -> tuple[str, ...]:
    """The names of the columns to be taken from a DataFrame; raises InvalidRequest with the one that does not fit."""
    types = [each for each in types if include_headers or each[0] != "headers"]
    names = [name for name, _ in types]
    advice = f"select {', '.join(TAKEN)} as far as they are there, and put anything else into value (to_json)"
    for name, kind in types:
        if names.count(name) > 1:
            raise InvalidRequest(problem=f"there are two columns {name!r}; {advice}")
        if name in TAKEN:
            if kind not in TAKEN[name]:
                wanted = f"column {name!r} is {kind}; the quiver sink takes {' or '.join(TAKEN[name])}"
                raise InvalidRequest(problem=f"{wanted}: {_converted(name, kind)}")
        elif name not in _OF_BROKER:
            raise InvalidRequest(problem=f"the quiver sink has no column {name!r}; {advice}")
    if "value" not in names:
        raise InvalidRequest(problem=f"there is no column 'value'; {advice}")
    if use_partition_column and "partition" not in names:
        raise InvalidRequest(problem="option 'usePartitionColumn' needs a column 'partition' of type int")
    if use_topic_column and "topic" not in names:
        raise InvalidRequest(
            problem="name the topic to write to by the option topic, or that of each row by a column 'topic'"
        )
    left_out = {"partition": not use_partition_column, "topic": not use_topic_column}
    return tuple(name for name in names if name in TAKEN and not left_out.get(name, False))


def _converted(name: str, kind: str) -> str:
    """How a column becomes what the sink takes."""
    if name == "headers" and kind.startswith("array<struct<"):
        return "select map_from_entries(headers) AS headers"
    if name == "value" and kind.startswith(("struct<", "array<", "map<")):
        return "select to_json(value) AS value"
    return "cast it"
