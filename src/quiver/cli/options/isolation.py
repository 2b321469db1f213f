"""Whether commands that read also show undecided messages."""

from enum import StrEnum
from typing import Annotated

import typer


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


_HELP = "read_uncommitted also shows messages of transactions that are open or were aborted."
IsolationOption = Annotated[Isolation, typer.Option("--isolation", help=_HELP)]
