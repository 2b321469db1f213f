"""What readers of committed messages leave out, against a model: any interleaving, any slices."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.client.message import messages_of
from quiver.client.read.cursor import Cursor
from quiver.model.limits import Limits
from quiver.partition.transactions import Marker, TransactionTable
from quiver.protocol.messages import FetchedPart
from quiver.records.build import build_frame
from quiver.records.header import stamp, unpack_header

DATA, PLAIN, COMMIT, ABORT = "data", "plain", "commit", "abort"


class Stored(NamedTuple):
    offset: int
    end: int
    data: bytes
    values: list[bytes]
    """None of a control frame."""


class Log:
    """Frames of a partition as a broker stores them, and what became of each transaction."""

    def __init__(self) -> None:
        self.frames: list[Stored] = []
        self.epochs: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        """By producer, the places of the frames of its open transaction."""
        self.dropped: set[int] = set()
        """Places of frames that were aborted."""
        self.table = TransactionTable()
        """The broker's own, which tells readers what was aborted."""

    @property
    def end(self) -> int:
        return self.frames[-1].end if self.frames else 0

    @property
    def last_stable(self) -> int:
        return min((self.frames[places[0]].offset for places in self.open.values()), default=self.end)

    def act(self, producer: int, action: str, count: int) -> None:
        if action in (DATA, PLAIN):
            if action == DATA:
                self.open.setdefault(producer, []).append(len(self.frames))
            self._store(producer, count, transactional=action == DATA)
        elif producer in self.open:
            places = self.open.pop(producer)
            if action == ABORT:
                self.dropped.update(places)
            self._store(producer, 1, Marker(action == COMMIT, 1), control=True)
            self.epochs[producer] = self.epochs.get(producer, 0) + 1

    def _store(self, producer: int, count: int, marker: Marker | None = None, **attributes: bool) -> None:
        values = [b"%d" % (self.end + n) for n in range(count)]
        identity = {"producer_id": producer, "producer_epoch": self.epochs.get(producer, 0), "base_sequence": 0}
        frame = build_frame(values, timestamp_ms=1, **identity, **attributes)
        stamped = stamp(frame, unpack_header(frame), base_offset=self.end, leader_epoch=1, append_time_ms=1)
        data = bytes(stamped.header_bytes) + bytes(stamped.body)
        self.table.record(unpack_header(data), marker)
        self.frames.append(Stored(self.end, self.end + count, data, values if marker is None else []))

    def visible(self, start: int, *, committed: bool) -> list[bytes]:
        """Values from an offset on that a reader is to see."""
        end = self.last_stable if committed else self.end
        return [
            value
            for place, frame in enumerate(self.frames)
            if frame.end <= end and not (committed and place in self.dropped)
            for n, value in enumerate(frame.values)
            if frame.offset + n >= start
        ]

    def answer(self, start: int, size: int, *, committed: bool) -> tuple[FetchedPart, bytes]:
        """A slice of about a size: its first frame is whole, its last one may be cut off."""
        end = self.last_stable if committed else self.end
        frames = [frame for frame in self.frames if frame.end > start and frame.end <= end]
        data = b"".join(frame.data for frame in frames)
        data = data[: max(size, len(frames[0].data))] if frames else b""
        told = self.table.aborted_in_slice(start, end, len(data)) if committed else []
        listed = [(each.producer_id, each.first_offset) for each in told]
        return FetchedPart(1, 0, len(data), 0, self.end, self.last_stable, 1, listed), data


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log()
    steps = st.tuples(st.integers(1, 3), st.sampled_from([DATA, DATA, PLAIN, COMMIT, ABORT]), st.integers(1, 3))
    for producer, action, count in draw(st.lists(steps, min_size=20, max_size=40)):
        log.act(producer, action, count)
    return log


@settings(max_examples=200)
@given(logs(), st.data(), st.booleans())
def test_readers_see_what_the_model_says_whatever_the_slices(log: Log, data: st.DataObject, committed: bool) -> None:
    start = data.draw(st.integers(0, log.end))
    cursor, values = Cursor(0, start), list[bytes]()
    end = log.last_stable if committed else log.end
    ends = []
    while cursor.offset < end:
        part, payload = log.answer(
            cursor.offset, data.draw(st.sampled_from([1, 500, 900, 2_000, 50_000])), committed=committed
        )
        before = cursor.offset
        for frame in cursor.take("t", part, memoryview(payload), read_committed=committed):
            ends.append(frame.end)
            if not frame.is_hidden:
                values += [message.value for message in messages_of(frame.open("t", Limits(), 0.0), "t")]
        assert cursor.offset > before
    assert values == log.visible(start, committed=committed)
    assert ends == sorted(ends)
    if ends:  # whoever has processed all of it is behind markers and what was aborted
        assert ends[-1] == end == cursor.offset
    assert cursor.readable_end <= end
