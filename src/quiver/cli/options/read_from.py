"""Which node of a cluster commands that read get messages from."""

from enum import StrEnum
from typing import Annotated

import typer


class ReadFrom(StrEnum):
    LEADER = "leader"
    NEAREST = "nearest"


_HELP = "nearest: the node of a cluster that this command is connected to reads its own replica."
ReadFromOption = Annotated[ReadFrom, typer.Option("--read-from", help=_HELP)]
