"""An archive run that is killed between the files of its second round and their commit. Arguments: source, lake."""

import json
import os
import signal
import sys
from typing import Any

import quiver_spark
from quiver.model.limits import MIB
from quiver_spark.jobs import archive
from quiver_spark.lake.table import Lake

_commit = Lake.commit
_commits = 0


def _die_at_the_second(self: Lake, *args: Any) -> None:
    global _commits
    _commits += 1
    if _commits == 2:
        print("written, not committed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    _commit(self, *args)


if __name__ == "__main__":
    Lake.commit = _die_at_the_second  # type: ignore[method-assign]
    spark = quiver_spark.session("killed", master="local[2]")
    archive.run(spark, json.loads(sys.argv[1]), sys.argv[2], commit_bytes=MIB)
