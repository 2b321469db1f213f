"""Which files of the lake are written again together: neighbours of one partition and date. Pure."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from quiver.model.limits import MIB
from quiver_spark.lake.files import LakeFile

TARGET_BYTES = 128 * MIB

Group = tuple[LakeFile, ...]


def bins(files: Sequence[LakeFile], *, target_bytes: int = TARGET_BYTES, singles: bool = False) -> list[Group]:
    """Groups of neighbours that fit the target together; with `singles`, also files that have no such neighbour.

    Nothing of the date lies between two neighbours, so one range from the first to the last says as much as theirs.
    Files of topics that had the same name one after the other stay apart; where their ids are not known, overlapping
    ranges show it.
    """
    found: list[Group] = []
    by_range = sorted(files, key=lambda file: (*_home(file), file.start))
    for _, neighbours in groupby(by_range, key=_home):
        found += [group for group in _filled(neighbours, target_bytes) if singles or len(group) > 1]
    return found


def rounds(groups: Sequence[Group], most_bytes: int) -> Iterator[list[Group]]:
    """All groups, in rounds of one commit each."""
    waiting: list[Group] = []
    for group in groups:
        if waiting and sum(map(size_bytes, (*waiting, group))) > most_bytes:
            yield waiting
            waiting = []
        waiting.append(group)
    if waiting:
        yield waiting


def size_bytes(group: Group) -> int:
    return sum(file.size_bytes for file in group)


def _home(file: LakeFile) -> tuple[str, int, int, str]:
    """Files with the same may be joined."""
    return file.topic, -1 if file.topic_id is None else file.topic_id, file.partition, file.date


def _filled(files: Iterator[LakeFile], target_bytes: int) -> Iterator[Group]:
    group: Group = ()
    for file in files:
        is_large = size_bytes((*group, file)) > target_bytes
        if group and (is_large or file.start < group[-1].stop):
            yield group
            group = ()
        group += (file,)
    if group:
        yield group
