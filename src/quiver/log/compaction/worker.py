"""The process that runs a pass: reads a job from its first line of input, and writes its reports as lines.

It runs at low priority, changes nothing outside the directory for new segments, and ends when the process that
started it ends, because that closes its standard input.
"""

import os
import sys
import threading

import msgspec
import pyarrow as pa

from quiver.log.compaction.job import Failed, Job, Report
from quiver.log.compaction.segment_pass import run_pass
from quiver.log.compaction.source import BadFrame
from quiver.system.files import Files

_NICENESS = 15


def main() -> None:
    os.nice(_NICENESS)
    pa.set_cpu_count(1)
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    threading.Thread(target=_end_with_the_other_side, daemon=True).start()
    try:
        for report in run_pass(job, Files()):
            _send(report)
    except (OSError, BadFrame) as error:
        _send(failure(error))


def failure(error: OSError | BadFrame) -> Failed:
    if isinstance(error, BadFrame):
        return Failed(problem="a frame changed while it was read")
    return Failed(problem=str(error), error_number=error.errno or 0)


def _send(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_the_other_side() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
