"""The checks of frames: each kind of finding from frames that are wrong, and none from frames that are right."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.records.header import CONTROL, TRANSACTIONAL, FrameHeader
from quiver_spark.jobs.audit.finding import Finding, Findings
from quiver_spark.jobs.audit.log.producer_sequences import is_passed
from quiver_spark.jobs.audit.log.range_checks import FAR, GapRules, RangeChecks, RangeReport
from quiver_spark.jobs.audit.log.range_join import PartitionJoin

Found = list[tuple[str, int, int]]


def header(
    offset: int,
    count: int = 1,
    *,
    epoch: int = 1,
    time_ms: int = 1_000,
    producer: int = -1,
    producer_epoch: int = 0,
    sequence: int = -1,
    attributes: int = 0,
    spans: int | None = None,
) -> FrameHeader:
    """`spans`: the offsets of a frame that lost messages."""
    last = (spans or count) - 1
    who = (-1, -1, -1) if producer < 0 else (producer, producer_epoch, sequence)
    return FrameHeader(2, 0, offset, epoch, 0, time_ms, 8, 8, count, last, *who, 0, 0, 0, attributes, 0)


def audited(*headers: FrameHeader, rules: GapRules | None = None, floor: int = 0, limit: int = 100) -> RangeReport:
    checks = RangeChecks("t", 0, rules or GapRules(), floor=floor, limit=limit)
    for each in headers:
        checks.frame(each)
    return checks.finish()


def joined(*reports: RangeReport, rules: GapRules | None = None) -> RangeReport:
    return PartitionJoin("t", 0, rules or GapRules(), limit=100).take_all(reports)


def found(report: RangeReport) -> Found:
    return [(each.kind, each.first_offset, each.last_offset) for each in report.findings.kept]


def sentence(report: RangeReport) -> str:
    [finding] = report.findings.kept
    return finding.sentence


HEALTHY = [
    header(0, 3, producer=7, sequence=0),
    header(3, 2),
    header(5, 2, producer=7, sequence=3),
    header(7, 1, producer=8, producer_epoch=2, sequence=0, attributes=TRANSACTIONAL),
    header(8, 1, producer=8, producer_epoch=2, sequence=0, attributes=TRANSACTIONAL | CONTROL),
    header(9, 1, producer=8, producer_epoch=3, sequence=0, attributes=TRANSACTIONAL),
    header(10, 4, producer=7, sequence=9),
    header(1_048_576, 1, epoch=2, time_ms=1_002),
]


def test_a_healthy_log_has_no_findings() -> None:
    report = audited(*HEALTHY)
    assert found(report) == []
    assert (report.frames, report.messages, report.markers) == (8, 14, 1)
    assert report.explained == {"unclean stop": 1_048_576 - 14}


@given(st.lists(st.booleans(), min_size=len(HEALTHY), max_size=len(HEALTHY)))
def test_it_has_none_however_it_is_cut_into_slices(cuts: list[bool]) -> None:
    slices: list[list[FrameHeader]] = [[]]
    for each, is_cut in zip(HEALTHY, cuts, strict=True):
        if is_cut:
            slices.append([])
        slices[-1].append(each)
    report = joined(*(audited(*slice_) for slice_ in slices))
    assert found(report) == []
    assert (report.frames, report.messages, report.markers) == (8, 14, 1)
    assert report.explained == {"unclean stop": 1_048_576 - 14}


BROKEN = {
    "gap": ([header(0, 3), header(5, 2)], [("gap", 3, 4)]),
    "gap of one": ([header(0, 3), header(4)], [("gap", 3, 3)]),
    "overlap": ([header(0, 3), header(2, 4)], [("order", 2, 5)]),
    "a frame twice": ([header(0, 3), header(0, 3), header(3)], [("order", 0, 2)]),
    "time goes back": ([header(0, time_ms=5), header(1, time_ms=4)], [("order", 1, 1)]),
    "epoch goes back": ([header(0, epoch=5), header(1, epoch=4)], [("order", 1, 1)]),
    "same sequence": (
        [header(0, 2, producer=7, sequence=0), header(2, 2, producer=7, sequence=0)],
        [("duplicate", 2, 3)],
    ),
    "sequence goes back": (
        [header(0, 2, producer=7, sequence=4), header(2, 1, producer=7, sequence=5)],
        [("sequence", 2, 2)],
    ),
    "an older epoch writes": (
        [header(0, producer=7, producer_epoch=1, sequence=0), header(1, producer=7, producer_epoch=0, sequence=9)],
        [("sequence", 1, 1)],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_logs(name: str) -> None:
    headers, expected = BROKEN[name]
    assert found(audited(*headers)) == expected
    first, *rest = headers
    across = joined(audited(first), audited(*rest))
    assert {kind for kind, *_ in found(across)} == {kind for kind, *_ in expected}, "also across a border"
    assert found(across)[0][1] == expected[0][1]


def test_sentences_name_what_is_needed_to_look() -> None:
    headers, _ = BROKEN["same sequence"]
    assert sentence(audited(*headers)) == "producer 7 epoch 0 sequence 0 is there twice: the first is at offset 0"
    headers, _ = BROKEN["sequence goes back"]
    assert "goes back to sequence 5 after it had come to 6" in sentence(audited(*headers))
    headers, _ = BROKEN["an older epoch writes"]
    assert "after its epoch 1, which fenced it" in sentence(audited(*headers))


def test_every_later_frame_of_a_repeated_run_is_named() -> None:
    run = [header(n, producer=7, sequence=n) for n in range(4)]
    again = [header(n + 4, producer=7, sequence=n) for n in range(4)]
    assert found(audited(*run, *again, header(8, producer=7, sequence=4))) == [
        ("duplicate", offset, offset) for offset in range(4, 8)
    ]


@pytest.mark.parametrize(("sequence", "following", "passed"), [(5, 5, False), (4, 5, True), (2**31 - 1, 0, True)])
def test_sequences_run_in_a_circle(sequence: int, following: int, passed: bool) -> None:
    assert is_passed(sequence, following) == passed
    assert found(audited(header(0, 2, producer=1, sequence=2**31 - 2), header(2, producer=1, sequence=0))) == []


def test_frames_that_lost_messages_number_what_they_had() -> None:
    thin = header(0, 1, spans=10, producer=7, sequence=0)
    assert found(audited(thin, header(10, producer=7, sequence=10))) == []
    assert found(audited(thin, header(10, producer=7, sequence=9))) == [("sequence", 10, 10)]


def test_what_compaction_explains() -> None:
    frames = [header(0), header(5), header(9)]
    report = audited(*frames, rules=GapRules(compacted_below=FAR))
    assert (found(report), report.explained) == ([], {"compaction": 7})
    report = audited(*frames, rules=GapRules(compacted_below=7))
    assert (found(report), report.explained) == ([("gap", 7, 8)], {"compaction": 5})
    looks = [7, 9]
    report = audited(*frames, rules=GapRules(compacted_below=5, look_again=lambda: looks.pop(0)))
    assert found(report) == [("gap", 7, 8)]
    report = joined(audited(header(0)), audited(header(5)), rules=GapRules(compacted_below=4))
    assert (found(report), report.explained) == ([("gap", 4, 4)], {"compaction": 3})


def test_what_retention_explains_while_it_is_read() -> None:
    checks = RangeChecks("t", 0, GapRules(), floor=5)
    checks.removed(9)
    checks.frame(header(9))
    report = joined(audited(header(0)), checks.finish())
    assert (found(report), report.explained) == ([], {"retention": 8})
    gone = RangeReport(is_gone=True, removed_below=4)
    assert found(joined(audited(header(0)), gone, audited(header(9)))) == [("gap", 4, 8)]


def test_a_topic_in_memory_behind_what_it_had_on_disk() -> None:
    report = audited(header(0), header(9), rules=GapRules(in_memory=True))
    assert (found(report), report.explained) == ([], {"memory": 8})


def test_damage_is_named_once_and_explains_its_gap() -> None:
    checks = RangeChecks("t", 0, GapRules(), floor=0)
    checks.frame(header(0, 2))
    checks.damage(5, "no frame")
    checks.frame(header(5, 2), is_good=False)
    checks.frame(header(7))
    assert found(checks.finish()) == [("crc", 2, 4), ("crc", 5, 6)]


def test_damage_at_a_border() -> None:
    begins, ends = (RangeChecks("t", 0, GapRules(), floor=floor) for floor in (3, 0))
    ends.frame(header(0, epoch=3))
    ends.damage(3, "no frame")
    begins.damage(6, "no frame")
    begins.frame(header(6, epoch=3))
    whole = RangeChecks("t", 0, GapRules(), floor=7)
    whole.damage(9, "nothing is left")
    report = joined(ends.finish(), begins.finish(), whole.finish(), audited(header(9, epoch=3), floor=9))
    assert found(report) == [("crc", 1, 2), ("crc", 3, 5), ("crc", 7, 8)]


def test_files_that_were_joined_while_they_were_read_are_counted_once() -> None:
    old = audited(header(5, producer=7, sequence=5), floor=5)
    new = audited(header(0, spans=5, producer=7, sequence=0), header(5, producer=7, sequence=5))
    new.is_replaced = True
    report = joined(new, old, audited(header(6, producer=7, sequence=6), floor=6))
    assert (found(report), report.frames) == ([], 3)
    new.is_replaced = False
    assert [kind for kind, *_ in found(joined(new, old))] == ["order", "duplicate"]


def test_findings_are_counted_beyond_those_that_are_kept() -> None:
    frames = [header(2 * n) for n in range(50)]
    report = audited(*frames, limit=10)
    assert (len(report.findings.kept), report.findings.counts) == (10, {"gap": 49})
    more = Findings(limit=15)
    more.take(report.findings)
    more.take(report.findings)
    assert (len(more.kept), more.counts, more.total) == (15, {"gap": 98}, 98)
    finding = Finding("t", 0, "gap", 3, 3, "x")
    assert (finding.offsets, Finding("t", 0, "gap", 3, 5, "x").offsets) == ("3", "3 to 5")


def test_random_repeats_are_found_and_nothing_else() -> None:
    chance = random.Random(3)
    for _ in range(100):
        frames, offset, sequences = [], 0, [0, 0, 0]
        for _ in range(30):
            who, count = chance.randrange(3), chance.randrange(1, 4)
            frames.append(header(offset, count, producer=who, sequence=sequences[who]))
            offset, sequences[who] = offset + count, sequences[who] + count + chance.choice([0, 0, 2])
        assert found(audited(*frames)) == []
        at = chance.randrange(30)
        repeat = frames[at]._replace(base_offset=offset)
        cut = chance.randrange(1, 30)
        for report in (
            audited(*frames, repeat),
            joined(audited(*frames[:cut]), audited(*frames[cut:], repeat, floor=frames[cut].base_offset)),
        ):
            [(kind, first, _)] = found(report)
            assert (kind in ("duplicate", "sequence"), first) == (True, offset)
