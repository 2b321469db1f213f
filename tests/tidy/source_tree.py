"""The project's files and their syntax trees, for the rules in test_tidy.py."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
GENERATED = "_sync"


@cache
def project_files() -> tuple[Path, ...]:
    """What is in the repository, or would be after `git add .`, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not a git checkout: {done.stderr.strip()}")
    return tuple(sorted(Path(name) for name in done.stdout.split("\0") if name and (ROOT / name).is_file()))


def python_files(*tops: str) -> list[Path]:
    """The Python files under some top folders, relative to the root."""
    return [path for path in project_files() if path.suffix == ".py" and path.parts[0] in tops]


@cache
def text_of(path: Path) -> str:
    return (ROOT / path).read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


def is_generated(path: Path) -> bool:
    return GENERATED in path.parts


def calls_in(path: Path) -> Iterator[tuple[str, int]]:
    """Each call by its full dotted name, as far as imports tell it, with its line: (`time.time_ns`, 12)."""
    tree = tree_of(path)
    names = dict(_imported_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (dotted := _dotted(node.func)):
            first, _, rest = dotted.partition(".")
            yield ".".join(part for part in (names.get(first, first), rest) if part), node.lineno


def imported_modules(path: Path) -> Iterator[str]:
    """The modules a file imports, also those it only names in a string (lazy exports, relative imports too)."""
    package = module_name(path).split(".") if path.name == "__init__.py" else module_name(path).split(".")[:-1]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("quiver"):
            yield node.value.partition(":")[0]


def module_name(path: Path) -> str:
    """`src/quiver/log/segment/index.py` is `quiver.log.segment.index`."""
    parts = list(path.with_suffix("").parts[1:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: Path) -> str:
    """The package of `quiver` that a source file is in; none for what is beside it."""
    return path.parts[2] if path.parts[1:2] == ("quiver",) else ""


def functions_in(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, line and number of lines (decorators and docstring left out) of each function."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - body[0].lineno + 1


def base_classes(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each class of a file with its bases, by full dotted names as far as imports tell them."""
    tree, module = tree_of(path), module_name(path)
    names = dict(_imported_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [_dotted(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
            yield (
                f"{module}.{node.name}",
                [names.get(base, base if "." in base else f"{module}.{base}") for base in bases],
            )


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                (alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names if alias.asname
            )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""
