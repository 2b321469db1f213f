"""A worker of a queue group, or a member of a stream group, as a process of its own.

    python -m blackbox.interleaving.actors.worker_process queue|stream GROUP HTTP ADDRESS SEED ACTOR DIRECTORY

It writes its events to `ACTOR.events` in the directory, and ends cleanly on SIGTERM.
"""

import signal
import sys
import threading
from pathlib import Path

from blackbox.interleaving.actors.queue_workers import work_with_sdk
from blackbox.interleaving.actors.stream_members import take_part
from blackbox.interleaving.history import Recorder
from blackbox.interleaving.scenario import GROUPS, World


def main(kind: str, name: str, http_port: str, address: str, seed: str, actor: str, directory: str) -> None:
    world = World(int(http_port), address, int(seed), Recorder(Path(directory) / f"{actor}.events"))
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    threading.Thread(target=lambda: (leaving.wait(), world.set(world.stopping)), daemon=True).start()
    (group,) = (group for group in GROUPS if group.name == name)
    (work_with_sdk if kind == "queue" else take_part)(world, actor, group)


if __name__ == "__main__":
    main(*sys.argv[1:])
