"""Style that a formatter cannot see, as tests: each failure names the place and what to do instead."""

import ast
import re
from pathlib import Path

from tidy.source_tree import (
    ROOT,
    calls_in,
    functions_in,
    imported_modules,
    is_generated,
    module_name,
    package_of,
    project_files,
    python_files,
    text_of,
    tree_of,
)

CLOCK = "take a quiver.system Clock and ask it"
CHANCE = "take a quiver.system Randomness and ask it"
FILES = "take a quiver.system Files and ask it"
PAUSE = "wait with asyncio, which follows the time of the loop; measure with a quiver.system Clock"
THREADS = "take a quiver.system Threads and ask it"
BANNED_CALLS = {
    "time.time": CLOCK,
    "time.time_ns": CLOCK,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.datetime.today": CLOCK,
    "os.urandom": CHANCE,
    "uuid.uuid1": CHANCE,
    "uuid.uuid4": CHANCE,
    "os.fsync": FILES,
    "os.fdatasync": FILES,
    "os.pwrite": FILES,
    "os.pwritev": FILES,
    "os.replace": FILES,
    "os.rename": FILES,
    "pickle.loads": "decode with msgspec, which runs no code",
    "pickle.load": "decode with msgspec, which runs no code",
    "eval": "parse the text",
    "exec": "write the code",
    "asyncio.get_event_loop": "asyncio.get_running_loop",
    "breakpoint": "remove it",
}
BANNED_PREFIXES = {"random.": CHANCE, "secrets.": CHANCE}
PAST_THE_LOOP = {
    "time.sleep": PAUSE,
    "time.monotonic": PAUSE,
    "time.monotonic_ns": PAUSE,
    "time.perf_counter": PAUSE,
    "time.perf_counter_ns": PAUSE,
    "threading.Thread": THREADS,
    "threading.Timer": PAUSE,
    "concurrent.futures.ThreadPoolExecutor": THREADS,
    "concurrent.futures.ProcessPoolExecutor": THREADS,
}
"""What a simulated loop does not see (docs/adr/0013-one-loop-one-time.md)."""
NEVER_SIMULATED = {
    "quiver/system": "is the outside world",
    "quiver/cli": "runs in a process of its own",
    "quiver/client/_backend_sync.py": "is the SDK with threads and blocking sockets",
    "quiver/app/embedded.py": "gives a broker a thread and a loop of its own",
    "quiver/telemetry/logs.py": "writes log lines of the process, in a thread",
    "quiver/log/compaction/worker.py": "is a process of its own",
    "quiver/gateways/http/application.py": "measures requests for log lines and metrics only",
    "quiver/log/files/sync_times.py": "measures syncs for metrics only",
}
FILE_LAYERS = ("log", "storage", "partition", "topics", "messages", "queues", "streams", "delays", "broker")
FILE_CALLS = (
    "open",
    "os.open",
    "os.unlink",
    "os.remove",
    "os.listdir",
    "os.mkdir",
    "os.makedirs",
    "os.stat",
    "shutil.rmtree",
)

LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK|WIP)\b|\b(?i:phase|milestone|iteration) \d")
EMPTY_WORDS = {"utils", "util", "manager", "helper", "helpers", "impl", "base", "misc", "common", "stuff"}
UNEXPLAINED = re.compile(r"#\s*(?:type:\s*ignore(?!\[)|noqa(?!:)|pragma: no cover\s*$)")
RULER = re.compile(r"^\s*#\s*[-=#*~_]{4,}|[\u2500-\u257f]")

DOORS = {"pyspark_quiver", "quiver.app.workers.node", "quiver.app.workers.environment"}
"""Imported by nobody, and alive: what Spark looks for, and the start of several workers, which is no setting yet."""

MAX_FILE_LINES = 400
TABLES = {Path("src/quiver/model/errors.py")}
"""One row after the other: a class for each error."""
MAX_FUNCTION_LINES = 60
LONG_FUNCTION_LINES = 30
LONG_FUNCTION_SHARE = 0.05
MAX_BLOB_BYTES = 1024 * 1024
STRAY = re.compile(
    r"(\.(pyc|pyo|swp|swo|orig|rej|bak|log|pid|sqlite|whl|o|so|zip|gz)|~|\.DS_Store|\.env)$|(^|/)core$"
)
SLEEPERS = {
    "tests/unit/cluster/test_cluster_membership.py": "virtual time passes",
    "tests/blackbox/processes/broker_process.py": "polls a process that gives no event",
    "tests/blackbox/cluster/chaos/relay_process.py": "is a slow network",
    "tests/blackbox/queues/test_queue_model.py": "kills at a random moment of a request; polls a broker for its end",
    "tests/blackbox/durability/test_kill.py": "kills at a random moment of the start",
    "tests/blackbox/durability/test_shutdown.py": "sends signals at several moments of the start",
    "tests/spark/sink/faulty_source.py": "a worker polls for the file that lets it go on",
    "tests/spark/lakes/object_store.py": "a store that answers late",
    "tests/unit/queues/partition/test_partition_queue.py": "polls a condition that gives no event",
    "tests/unit/native/native_client.py": "polls a condition that gives no event",
    "tests/unit/testing/test_simulated_loop.py": "sleeps in virtual time",
    "tests/unit/native/test_native_responses.py": "lets the gateway read on; too short a time only ends a loop early",
}
"""Tests that sleep, and why that decides nothing."""

SOURCES = [path for path in python_files("src") if not is_generated(path)]
EVERYTHING = python_files("src", "tests", "benchmarks", "scripts", "examples")


def _found(places: list[str]) -> str:
    return f"{len(places)} places:\n" + "\n".join(places)


def test_the_outside_world_comes_in_through_system() -> None:
    bad = []
    for path in SOURCES:
        if package_of(path) == "system":
            continue
        for call, line in calls_in(path):
            instead = BANNED_CALLS.get(call) or next(
                (i for p, i in BANNED_PREFIXES.items() if call.startswith(p)), None
            )
            if instead is None and package_of(path) in FILE_LAYERS and call in FILE_CALLS:
                instead = FILES
            if instead is not None:
                bad.append(f"{path}:{line}: {call}: {instead}")
    assert not bad, _found(bad)


def test_the_broker_does_not_import_pandas() -> None:
    """Arrow imports it, a second of work on the loop, to recognise its types."""
    bad = [
        f"{path}:{line}: {call}: go through quiver.records.arrow_arrays"
        for path in SOURCES
        if package_of(path) not in ("", "records")
        for call, line in calls_in(path)
        if call in ("pyarrow.array", "pyarrow.scalar") or call.endswith(".to_numpy")
    ]
    assert not bad, _found(bad)


def test_what_runs_on_a_loop_waits_and_counts_with_it() -> None:
    """A pause, a thread or a number that the loop does not know escapes the simulator, or makes two runs differ."""
    bad = []
    for path in SOURCES:
        if package_of(path) == "" or any(str(path).startswith(f"src/{place}") for place in NEVER_SIMULATED):
            continue
        bad += [
            f"{path}:{line}: {call}: {PAST_THE_LOOP[call]}" for call, line in calls_in(path) if call in PAST_THE_LOOP
        ]
        bad += [
            f"{path}:{node.lineno}: a counter of the process: count in the broker, gateway or client it belongs to"
            for node in tree_of(path).body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) in ("itertools.count", "count")
        ]
    assert not bad, _found(bad)


def test_nothing_prints_but_the_command_line() -> None:
    bad = [
        f"{path}:{line}: print: log it"
        for path in SOURCES
        if package_of(path) != "cli" and path.name != "__main__.py"
        for call, line in calls_in(path)
        if call == "print"
    ]
    assert not bad, _found(bad)


def test_no_leftovers() -> None:
    this = Path(__file__).relative_to(ROOT)
    texts = [path for path in project_files() if path.suffix in (".py", ".md", ".toml") and path != this]
    bad = [
        f"{path}:{number}: {line.strip()}"
        for path in texts
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if LEFTOVER.search(line)
    ]
    assert not bad, _found(bad)


def test_no_rulers_and_boxes_in_code() -> None:
    bad = [
        f"{path}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if RULER.search(line)
    ]
    assert not bad, _found(bad)


def test_exceptions_to_the_checkers_name_their_rule() -> None:
    bad = [
        f"{path}:{number}: {line.strip()}"
        for path in EVERYTHING
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if UNEXPLAINED.search(line)
    ]
    assert not bad, _found(bad)


def test_names_say_something() -> None:
    bad = [str(path) for path in EVERYTHING if EMPTY_WORDS & set(re.split(r"[_./]", str(path).lower()))]
    assert not bad, _found(bad)


def test_every_module_says_what_it_is() -> None:
    bad = [str(path) for path in SOURCES if not ast.get_docstring(tree_of(path))]
    assert not bad, _found(bad)


def test_files_and_functions_are_short() -> None:
    long = [(path, n) for path in SOURCES if (n := text_of(path).count("\n")) > MAX_FILE_LINES]
    bad = [f"{path}: {n} lines" for path, n in long if path not in TABLES]
    functions = [(path, *function) for path in SOURCES for function in functions_in(path)]
    bad += [f"{path}:{line}: {name} has {n} lines" for path, name, line, n in functions if n > MAX_FUNCTION_LINES]
    assert not bad, _found(bad)
    long = [f"{path}:{line}: {name} {n}" for path, name, line, n in functions if n > LONG_FUNCTION_LINES]
    assert len(long) <= LONG_FUNCTION_SHARE * len(functions), f"of {len(functions)} functions " + _found(long)


def test_no_dead_modules() -> None:
    """A module that nothing imports is dead, unless it is a door (the command, what users' tests may take), or a
    pure structure, which may be there before its first user."""
    imported = {name for path in python_files("src", "scripts") for name in imported_modules(path)}
    bad = [
        str(path)
        for path in python_files("src")
        if path.name not in ("__init__.py", "__main__.py")
        and module_name(path) not in imported
        and package_of(path) not in ("testing", "structures")
        and module_name(path) not in DOORS
    ]
    assert not bad, _found(bad)


def test_tests_have_names_of_their_own() -> None:
    """One import name a file: two test files of one name would shadow each other."""
    seen: dict[str, Path] = {}
    bad = []
    for path in python_files("tests"):
        if path.name in ("conftest.py", "__init__.py"):
            continue
        if path.name in seen:
            bad.append(f"{path} and {seen[path.name]}")
        seen[path.name] = path
    assert not bad, _found(bad)


def test_tests_do_not_sleep() -> None:
    """`asyncio.sleep(0)` lets others run and is fine; waiting is done for an event or a state."""
    bad = [
        f"{path}:{line}: {call}: wait for what is to happen"
        for path in python_files("tests")
        if str(path) not in SLEEPERS
        for call, line in calls_in(path)
        if call == "time.sleep"
        or (call == "asyncio.sleep" and "sleep(0)" not in text_of(path).splitlines()[line - 1])
    ]
    assert not bad, _found(bad)


def test_no_blobs_and_no_strays() -> None:
    bad = [str(path) for path in project_files() if STRAY.search(str(path))]
    bad += [
        f"{path}: {size} bytes" for path in project_files() if (size := (ROOT / path).stat().st_size) > MAX_BLOB_BYTES
    ]
    assert not bad, _found(bad)


def test_links_in_the_documents_lead_somewhere() -> None:
    bad = [
        f"{path}: {target}"
        for path in project_files()
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(path))
        if "://" not in target and not (ROOT / path.parent / target).exists()
    ]
    assert not bad, _found(bad)
