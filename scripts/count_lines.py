"""Counts lines: `python scripts/count_lines.py` prints hand-written source, tests, and tests per source line.

Generated code (`_sync`) does not count. Blank lines do not count either, comments and docstrings do.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = "_sync"


def line_count(top: Path) -> int:
    files = (path for path in top.rglob("*.py") if GENERATED not in path.parts)
    return sum(1 for path in files for line in path.read_text().splitlines() if line.strip())


def main() -> None:
    source, tests = line_count(ROOT / "src"), line_count(ROOT / "tests")
    print(f"{source:,} lines of source, {tests:,} of tests: {tests / source:.3f} per source line")
    for package in sorted({path.parent for path in (ROOT / "src/quiver").glob("*/__init__.py")}):
        unit = ROOT / "tests/unit" / package.name
        if unit.is_dir():
            count, own = line_count(package), line_count(unit)
            print(f"  {package.name:14} {count:6,} source {own:6,} in tests/unit, {own / max(1, count):.2f}")


if __name__ == "__main__":
    main()
