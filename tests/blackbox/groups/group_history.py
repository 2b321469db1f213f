"""What happened in a group: by the journal of the broker, and by what its members wrote down. And what must hold."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from blackbox.processes.data_files import segments
from quiver.records.read import open_frame, split_frames
from quiver.streams.events import Event, MembershipChanged, OffsetsCommitted

_EVENT = msgspec.json.Decoder(Event)
FOREVER = 2**63


class Tenure(NamedTuple):
    """A member's time with a partition, by its own clock, which is the machine's."""

    member: str
    partition: int
    generation: int
    begin: int
    end: int
    """FOREVER when it did not let go of it: it was killed or put out."""


class MemberHistory:
    """The notes of one worker process, cut into one history per membership."""

    def __init__(self, name: str, notes: Sequence[Any]) -> None:
        self.name = name
        self.began_at: int = notes[0][0]
        self.reads = [(note[2], note[3]) for note in notes if note[1] == "read"]
        self.commits = [(note[0], note[2]) for note in notes if note[1] == "commit"]
        self.is_out = any(note[1] in ("fenced", "lost", "disturbed") for note in notes)
        self.tenures = list(self._tenures(notes))

    def _tenures(self, notes: Sequence[Any]) -> Iterator[Tenure]:
        open_at: dict[int, tuple[int, int]] = {}
        for at, what, *details in notes:
            if what == "assign":
                open_at |= dict.fromkeys(details[0], (details[1], at))
            elif what == "revoke":
                for partition in details[0]:
                    if partition in open_at:
                        yield Tenure(self.name, partition, *open_at.pop(partition), at)
        for partition, (generation, begin) in open_at.items():
            yield Tenure(self.name, partition, generation, begin, FOREVER)


def member_histories(paths: Sequence[Path]) -> list[MemberHistory]:
    found = []
    for path in paths:
        notes: list[Any] = []
        for line in path.read_text().splitlines():
            note = json.loads(line)
            if note[1] == "start" and notes:
                found.append(MemberHistory(f"{path.stem}-{len(found)}", notes))
                notes = []
            notes.append(note)
        if notes:
            found.append(MemberHistory(f"{path.stem}-{len(found)}", notes))
    return found


def check_all_processed(histories: Sequence[MemberHistory], acked: set[tuple[int, int]]) -> None:
    missed = acked - {read for history in histories for read in history.reads}
    assert not missed, f"{len(missed)} of {len(acked)} messages were never processed, such as {sorted(missed)[:5]}"


def check_committed_is_not_seen_again(histories: Sequence[MemberHistory]) -> None:
    """By members that began after the commit was acknowledged."""
    commits = sorted((at, positions) for history in histories for at, positions in history.commits)
    for history in histories:
        floor: dict[int, int] = defaultdict(int)
        for at, positions in commits:
            if at < history.began_at:
                for partition, offset in positions.items():
                    floor[int(partition)] = max(floor[int(partition)], offset)
        again = [(partition, offset) for partition, offset in history.reads if offset < floor[partition]]
        assert not again, f"{history.name} read {again[:5]}, committed were {dict(floor)}"


def check_one_owner_at_a_time(histories: Sequence[MemberHistory], stopped: set[str]) -> None:
    """Two have a partition at once only when one of them is out, and then it has it from an earlier generation.

    `stopped` are the workers that may have been put out without noticing it.
    """
    by_partition: dict[int, list[Tenure]] = defaultdict(list)
    may_be_out = {history.name: history.is_out or history.name.split("-")[0] in stopped for history in histories}
    for history in histories:
        for tenure in history.tenures:
            by_partition[tenure.partition].append(tenure)
    for tenures in by_partition.values():
        for first, second in combinations(sorted(tenures, key=lambda tenure: (tenure.generation, tenure.begin)), 2):
            if first.member != second.member and first.begin < second.end and second.begin < first.end:
                assert first.end == FOREVER or may_be_out[first.member], f"{second} began while {first} had it"
                assert second.generation > first.generation, f"{second} has the generation of {first}"


def _uncut(shard: Path) -> list[Path]:
    """The segments of a shard; one that no group was in has none."""
    files = segments(shard)
    assert not files or int(files[0].stem) == 0, "the journal was cut"
    return files


class GroupJournal:
    """Everything the broker wrote down about its one group."""

    def __init__(self, data_dir: Path) -> None:
        self.events: list[Event] = []
        shards = sorted((data_dir / "logs" / "internal" / "streams").iterdir())
        for file in (file for shard in shards for file in _uncut(shard)):
            data = file.read_bytes()
            for position, _ in split_frames(data):
                self.events += [_EVENT.decode(record) for record in open_frame(data, position).values()]
        assert self.events, "the journals of stream groups are empty"

    def check_owners(self) -> int:
        """No partition has two owners, no generation comes twice; returns the last generation."""
        last = 0
        for event in self.events:
            if isinstance(event, MembershipChanged):
                owned = [p for member in event.membership.members.values() for p in member.owned]
                assert len(owned) == len(set(owned)), f"two owners: {event}"
                assert event.membership.generation >= last, f"generation {event.membership.generation} after {last}"
                last = event.membership.generation
        return last

    def check_offsets(self) -> dict[int, int]:
        """Committed offsets never go back; returns the last ones by partition."""
        committed: dict[int, int] = defaultdict(int)
        for event in self.events:
            if isinstance(event, OffsetsCommitted):
                for (_, partition), entry in event.offsets:
                    assert entry.offset >= committed[partition], f"{partition}: {entry} after {committed[partition]}"
                    committed[partition] = entry.offset
        return committed
