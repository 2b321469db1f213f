"""No flipped bit goes unseen, and no bytes crash a reader or make it take more memory than its limits."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import InvalidFrame, QuiverError
from quiver.model.limits import MIB, Limits
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.header import unpack_header
from quiver.records.read import open_frame, split_frames
from unit.records.frame_content import sealed, stored
from unit.records.golden_frames import CASES
from unit.records.hostile_frames import read_all

TESTS = Path(__file__).parents[2]
ROUNDS = int(os.environ.get("QUIVER_FUZZ_ROUNDS", "10000"))


def flips(frame: bytes) -> list[bytes]:
    damaged = bytearray(frame)
    found = []
    for place in range(len(frame)):
        for bit in range(8):
            damaged[place] ^= 1 << bit
            found.append(bytes(damaged))
            damaged[place] ^= 1 << bit
    return found


@pytest.mark.parametrize("name", ["one", "every-column", "zstd", "transactional"])
def test_every_flipped_bit_of_a_stored_frame_is_seen(name: str) -> None:
    frame = stored(build_frame(**CASES[name]), 123)
    open_frame(frame)
    for damaged in flips(frame):
        with pytest.raises(InvalidFrame):
            open_frame(damaged)


@pytest.mark.parametrize("name", ["one", "every-column", "zstd", "transactional"])
def test_every_flipped_bit_of_a_sent_frame_is_seen(name: str) -> None:
    frame = build_frame(**CASES[name])
    check_frame(frame, Limits())
    for damaged in flips(frame):
        with pytest.raises(QuiverError):
            check_frame(damaged, Limits())


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidFrame):
        check_frame(data, Limits())
    with pytest.raises(InvalidFrame):
        open_frame(data)
    with pytest.raises(InvalidFrame):
        list(split_frames(b"QV\x01" + data.ljust(200, b"\x00")))


@given(
    st.binary(min_size=1, max_size=60).map(lambda data: data * 8),
    st.integers(0, 2),
    st.integers(0, 127),
    st.sampled_from([0, 1, 8, 1000, 2**20, 2**31, 2**32 - 1]),
)
def test_arbitrary_bodies_with_good_checksums_are_refused(data: bytes, codec: int, columns: int, claim: int) -> None:
    header = unpack_header(build_frame([b"a"], timestamp_ms=1))._replace(
        length=len(data),
        uncompressed_length=claim if codec else len(data),
        attributes=codec,
        columns=columns,
    )
    assert not read_all(sealed(header, data))


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_frames_neither_crash_nor_fill_memory(seed: int) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "unit.records.hostile_frames", str(ROUNDS), str(seed)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr[-2000:]
    verdict, taken, most = outcome.stdout.split()
    assert verdict == "ok"
    assert 0 < int(taken) < ROUNDS
    # The limit in there is 1 MiB a frame: one body decompressed, and the text of its columns on the way to Python.
    assert int(most) < 4 * MIB


def test_a_body_that_claims_to_be_large_is_refused_before_memory_is_taken() -> None:
    small = build_frame([bytes(15 * MIB)], timestamp_ms=1, compression="zstd")
    before = pa.total_allocated_bytes()
    for limit in (MIB, 15 * MIB):
        with pytest.raises(QuiverError, match="over the limit"):
            check_frame(small, Limits(frame_bytes=limit))
    assert pa.total_allocated_bytes() == before
