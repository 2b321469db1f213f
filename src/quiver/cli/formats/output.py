"""Results on standard output: a table for people, JSON or YAML for programs."""

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print the result.")]


def show_rows(rows: Sequence[Mapping[str, Any]], output: Output, *, columns: Sequence[str] = ()) -> None:
    """Prints a listing. `columns` names the columns of an empty table and picks those of a full one."""
    if output is Output.TABLE:
        print(table(rows, columns))
    else:
        show_document(list(rows), output)


def show_record(record: Mapping[str, Any], output: Output) -> None:
    """Prints one thing: as a table, a line per field."""
    if output is Output.TABLE:
        print(table([{"field": name, "value": cell(name, value)} for name, value in record.items()]))
    else:
        show_document(dict(record), output)


def show_document(document: Any, output: Output) -> None:
    if output is Output.YAML:
        import yaml

        plain = msgspec.to_builtins(document)
        yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=True, default_flow_style=False)
        sys.stdout.flush()
    else:
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Left-aligned columns (numbers to the right), two spaces apart, with a head line; never cuts a value."""
    names = list(columns) or list(dict.fromkeys(name for row in rows for name in row))
    cells = [[cell(name, row.get(name)) for name in names] for row in rows]
    heads = [name.removesuffix("_bytes").upper().replace("_", " ") for name in names]
    widths = [max(len(head), *(len(line[i]) for line in cells), 0) for i, head in enumerate(heads)]
    right = [bool(rows) and all(_is_number(row.get(name)) for row in rows) for name in names]
    return "\n".join(_line(line, widths, right) for line in [heads, *cells])


def cell(name: str, value: Any) -> str:
    """A value in a column, or a field, of a table: sizes with a unit, everything else as `shown`."""
    is_size = name.endswith("bytes") and isinstance(value, int) and not isinstance(value, bool)
    return human_bytes(value) if is_size else shown(value)


def human_bytes(size: int) -> str:
    """`512 B`, `64 MiB`, `1.5 GiB`: at most one digit after the point, and none that would be zero."""
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(amount) < _UNIT:
            break
        amount, unit = amount / _UNIT, larger
    return f"{amount:.1f}".removesuffix(".0") + f" {unit}"


_UNIT = 1024


def shown(value: Any) -> str:
    """A cell: `-` for None, true and false as in the configuration, lists with commas; always one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(shown(item) for item in value)
    return str(value).translate(_CONTROL)


_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()
