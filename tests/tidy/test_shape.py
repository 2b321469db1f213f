"""The shape of the code: small folders, short parameter lists, parts that are held and not inherited, plain words.

An exception is a path, or the beginning of one, with its reason.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tidy.source_tree import (
    base_classes,
    is_generated,
    module_name,
    project_files,
    python_files,
    text_of,
    tree_of,
)

MAX_MODULES = 15

MAX_PARAMETERS = 6
OPTIONS_OF_USERS = ("src/quiver/client/", "src/quiver/app/embedded.py", "src/quiver_spark/")
"""Where keyword-only parameters of public functions are options that users choose from: as many as they need."""
LONG_PARAMETER_LISTS = {
    "src/quiver/records/build.py:build_frame": "the columns of a frame, most of them left out",
    "src/quiver/records/build.py:_seal": "the fields that a producer sets in a frame header, most of them left out",
    "src/quiver/storage/journal.py:Journal.open": "where a journal is, how it is kept, and its owner's callbacks",
    "src/quiver_spark/jobs/audit/": "the fields of a finding",
}

MAX_INHERITED_LEVELS = 1
NOT_COUNTED = {
    "Protocol",
    "Struct",
    "NamedTuple",
    "Exception",
    "BaseException",
    "ABC",
    "Enum",
    "StrEnum",
    "TypedDict",
}
"""Ports, values and errors: a family of them says what is alike, and shares no state."""
DEEP_CLASSES: dict[str, str] = {}

MAX_PROSE_COLUMNS = 100
WIDE_DOCUMENTS: dict[str, str] = {}

METAPHORS = {
    "burial": "dead letter",
    "bury": "dead-letter",
    "buried": "dead-lettered",
    "carrier": "relay",
    "fleet": "in-flight batches",
    "grave": "dead-letter partition",
    "holdings": "assignment",
    "keeper": "consumer loop",
    "ledger": "in flight",
    "parcel": "response",
    "picker": "selector",
    "salvo": "firing batch",
    "shelf": "prefetch buffer",
    "tally": "counters",
    "ticket": "send future",
    "transit": "relay",
    "upkeep": "maintenance",
    "workshop": "worker pool",
    "anew": "again",
    "hears": "gets",
    "burying": "dead-lettering",
    "undertaker": "dead-letter consumer",
    "crew": "threads",
    "portion": "slice, batch",
    "scout": "probe",
    "in_hand": "in flight",
    "in hand": "in flight",
    "come to grief": "fail",
    "comes to grief": "fails",
    "messages a second": "messages per second",
    "lane_book": "lane table",
    "a letter": "a dead letter",
    "the letter": "the dead letter",
    "sign of life": "heartbeat",
    "signs of life": "heartbeats",
    "stepped over": "skipped",
    "fall due": "become due",
    "falls due": "becomes due",
    "fell due": "became due",
    "never were": "never existed",
    "what is the matter": "what is wrong",
    "no answer": "no response",
    "times a second": "times per second",
    "bytes an entry": "bytes per entry",
    "a class a code": "a class per code",
}
"""A word or phrase that must be decoded, and the word of the field (`docs/glossary.md`)."""
METAPHORS_ALLOWED = {
    "src/quiver/testing/simulation/workloads/bank.py": "a bank has a ledger",
    "tests/tidy/test_shape.py": "the list of words",
}

SOURCES = [path for path in python_files("src") if not is_generated(path)]
TESTS = python_files("tests")


def _places(found: Iterable[tuple[str, str]], allowed: Iterable[str], instead: str) -> None:
    exceptions = tuple(allowed)
    bad = [f"{place}: {problem}" for place, problem in found if not place.startswith(exceptions)]
    assert not bad, f"{instead}; {len(bad)} places:\n" + "\n".join(bad)


def test_folders_are_small() -> None:
    files = python_files("src", "tests", "benchmarks", "scripts")
    counts = Counter(str(path.parent) for path in files if path.name not in ("__init__.py", "conftest.py"))
    crowded = [f"{folder}: {n}" for folder, n in counts.items() if n > MAX_MODULES]
    assert not crowded, f"more than {MAX_MODULES} modules; make folders by what they are for: {crowded}"


def test_parameter_lists_are_short() -> None:
    found = [
        (f"{path}:{name}", f"{count} parameters")
        for path in SOURCES
        for name, count in _parameter_counts(path)
        if count > MAX_PARAMETERS
    ]
    _places(found, LONG_PARAMETER_LISTS, f"at most {MAX_PARAMETERS}: pass a value, or give it a smaller job")


def _parameter_counts(path: Path) -> Iterator[tuple[str, int]]:
    """Each function with the number of its parameters, without `self`, options of users and those of commands."""
    has_options = str(path).startswith(OPTIONS_OF_USERS)
    for holder in ast.walk(tree_of(path)):
        for node in getattr(holder, "body", ()) if not isinstance(holder, ast.Lambda | ast.IfExp) else ():
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_command(node):
                continue
            names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            if not has_options or node.name.startswith("_"):
                count += len(node.args.kwonlyargs)
            yield (f"{holder.name}.{node.name}" if isinstance(holder, ast.ClassDef) else node.name), count


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A command of the command line: its parameters are options, written out or with a name that ends in Option."""
    return bool(re.search(r"typer\.|: \w+Option\b", ast.unparse(node.args)))


def test_parts_are_held_and_not_inherited() -> None:
    found = [
        (str(path), f"{name.rpartition('.')[2]} inherits {levels} levels")
        for path in SOURCES
        for name, _ in base_classes(path)
        if (levels := _inherited_levels(name)) > MAX_INHERITED_LEVELS
    ]
    _places(found, DEEP_CLASSES, "a project class inherits at most one level from another; hold the parts instead")


@cache
def _classes() -> dict[str, list[str]]:
    return {name: bases for path in SOURCES for name, bases in base_classes(path)}


@cache
def _inherited_levels(name: str) -> int:
    return max((1 + _inherited_levels(base) for base in _classes()[name] if _counts(base)), default=0)


@cache
def _counts(name: str) -> bool:
    """Whether a class is one of this project that has state and steps of its own."""
    return name in _classes() and not _is_family(name)


@cache
def _is_family(name: str) -> bool:
    bases = _classes().get(name, [])
    return any(base.rpartition(".")[2] in NOT_COUNTED or _is_family(base) for base in bases)


def test_documents_are_not_wider_than_a_page() -> None:
    """Tables, code, links and headings are as wide as they need to be."""
    found = [
        (f"{path}:{number}", f"{len(line)} columns")
        for path in project_files()
        if path.suffix == ".md"
        for number, line in _prose(text_of(path))
        if len(line) > MAX_PROSE_COLUMNS
    ]
    _places(found, WIDE_DOCUMENTS, f"prose has at most {MAX_PROSE_COLUMNS} columns")


def _prose(text: str) -> Iterator[tuple[int, str]]:
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not re.match(r"\s*\||    |#|<|\s*[-*]?\s*\[[^\]]*\]\([^)]*\)$|\s*\S+$", line):
            yield number, line


def test_words_are_those_of_the_field() -> None:
    pattern = re.compile(rf"(?<![a-z])({'|'.join(METAPHORS)})s?(?![a-z])", re.IGNORECASE)
    found = [
        (f"{path}:{number}", f"{match[1]}: {METAPHORS[match[1].lower()]}")
        for path in (*SOURCES, *TESTS)
        for number, line in enumerate(text_of(path).splitlines(), 1)
        for match in pattern.finditer(line)
    ]
    found += [(str(path), "the name of a module") for path in (*SOURCES, *TESTS) if pattern.search(path.stem)]
    _places(found, METAPHORS_ALLOWED, "the word of the field")


def test_one_name_for_one_class() -> None:
    """Within the broker, a class name means one thing."""
    seen: dict[str, str] = {}
    bad = []
    for path in SOURCES:
        for name, _ in base_classes(path):
            short = name.rpartition(".")[2]
            if path.parts[2] in BROKER_PACKAGES and not short.startswith("_"):
                if short in seen and short not in TWO_CLASSES:
                    bad.append(f"{name} and {seen[short]}")
                seen[short] = module_name(path)
    assert not bad, "one word for one thing:\n" + "\n".join(bad)


BROKER_PACKAGES = {
    "broker", "dead_letters", "delays", "groups", "log", "messages", "model", "outbox", "partition", "queues",
    "records", "schedules", "storage", "streams", "structures", "system", "telemetry", "topics", "transactions",
}  # fmt: skip
TWO_CLASSES = {
    "Engine": "the part of the storage that a log and its compaction use",
    "Forgotten": "an event of two journals",
    "MoveDone": "an event of two journals",
    "ReadAhead": "of delays and of queues",
    "Backoff": "the pause of a lane and the policy",
}
