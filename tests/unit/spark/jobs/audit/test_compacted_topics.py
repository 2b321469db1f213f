"""Compaction explains what it took, and only that; also while files are read, and when it was cut short."""

import random
import shutil
from pathlib import Path

import msgspec

from blackbox.processes.data_files import stored_frames
from quiver.log.compaction.replacement import NOTE
from quiver.reader.segment_directory import SegmentDirectory
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import Log, LogOptions
from unit.log.keyed import Row, everything, keyed_frame
from unit.log.logs import segment_files
from unit.spark.jobs.audit.segment_audit import audit, found, rewrite


async def filled(storage: LocalStorage, *, frames: int = 60) -> Log:
    log = await storage.open_log("t", LogOptions(durability="fsync", segment_bytes=64 * 1024, roll_after_ms=10**12))
    chance = random.Random(5)
    for number in range(frames):
        names = [b"k%d" % chance.randrange(30) for _ in range(10)]
        rows: list[Row] = [(b"hot" if number % 3 else name, chance.randbytes(400)) for name in names]
        await log.append([keyed_frame(log.end_offset, rows)])
    return log


async def test_compaction(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    await storage.open()
    log = await filled(storage)
    directory = tmp_path / "logs" / "t"
    assert found(audit(directory, compacted=True)) == []
    await log.compact(everything(log))
    report = audit(directory, compacted=True)
    assert found(report) == []
    assert 0 < report.messages < 600
    assert report.explained.keys() == {"compaction"}
    assert found(audit(directory)) == [], "also when the topic is not compacted any more"
    await storage.close()
    last = segment_files(directory)[-1]
    rewrite(last, [n for n in range(len(stored_frames(last))) if n != 1])
    kinds = {kind for kind, *_ in found(audit(directory, compacted=True))}
    assert kinds == {"gap", "lost"}, "the last segment is never compacted"


async def test_compaction_while_it_is_read(tmp_path: Path) -> None:
    """Old files are put aside, and come to their places before each of the files that is read."""
    storage = LocalStorage(tmp_path / "data")
    await storage.open()
    log = await filled(storage)
    directory, old, new = tmp_path / "data" / "logs" / "t", tmp_path / "old", tmp_path / "new"
    shutil.copytree(directory, old)
    await log.compact(everything(log))
    await storage.close()
    shutil.copytree(directory, new)
    count = len(SegmentDirectory(old).base_offsets())
    assert len(SegmentDirectory(new).base_offsets()) < count
    for moment in range(count + 1):
        shutil.rmtree(directory)
        shutil.copytree(old, directory)

        def replace(number: int, moment: int = moment) -> None:
            if number == moment:
                for path in directory.iterdir():
                    path.unlink()
                for path in new.iterdir():
                    shutil.copy(path, directory)

        report = audit(directory, compacted=True, meanwhile=replace)
        assert found(report) == [], f"before file {moment}"


async def test_a_compaction_that_was_cut_short(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    await storage.open()
    log = await filled(storage)
    directory, old = tmp_path / "logs" / "t", tmp_path / "old"
    shutil.copytree(directory, old)
    await log.compact(everything(log))
    await storage.close()
    replaced = [
        base
        for base in SegmentDirectory(old).base_offsets()
        if base not in SegmentDirectory(directory).base_offsets()
    ]
    for base in replaced:
        shutil.copy(old / f"{base:020d}.log", directory)
    assert {kind for kind, *_ in found(audit(directory, compacted=True))} >= {"order"}
    first = segment_files(directory)[0]
    note = msgspec.msgpack.encode(((0, *replaced), first.stat().st_size, 0))
    (directory / NOTE).write_bytes(bytes(4) + note)
    assert found(audit(directory, compacted=True)) == []
