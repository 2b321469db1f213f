"""How long `import quiver` takes in a new Python, and `quiver --help` as a whole."""

import subprocess
import sys
import time

from benchmarks.run import Run
from benchmarks.servers.presence import find_program

IMPORT = "import time; begin = time.perf_counter(); import quiver; print(time.perf_counter() - begin)"
FULL_TRIES = 10


def measure_import_time(run: Run) -> None:
    """Each try is a repetition: the first may read the files from disk."""
    for _ in range(max(3, int(FULL_TRIES * run.scale.share))):
        with run.measuring("quiver", "import", detail="import quiver") as metrics:
            answer = subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True)
            metrics["took_ms"] = float(answer.stdout) * 1e3
        with run.measuring("quiver", "import", detail="quiver --help") as metrics:
            begin = time.monotonic()
            subprocess.run([str(find_program("quiver")), "--help"], check=True, capture_output=True)
            metrics["took_ms"] = (time.monotonic() - begin) * 1e3
