"""Objects that must not be used in a child process: sockets and threads do not survive a fork."""

import os
import weakref
from typing import Protocol


class ForkAware(Protocol):
    def after_fork(self, parent_pid: int) -> None:
        """Called in the child: from now on the object refuses its work."""
        ...


_live: "weakref.WeakSet[ForkAware]" = weakref.WeakSet()
_pid = os.getpid()


def watch_forks(subject: ForkAware) -> None:
    _live.add(subject)


def current_pid() -> int:
    """This process, without a system call."""
    return _pid


def _in_child() -> None:
    global _pid
    parent, _pid = _pid, os.getpid()
    for subject in list(_live):
        subject.after_fork(parent)


os.register_at_fork(after_in_child=_in_child)
