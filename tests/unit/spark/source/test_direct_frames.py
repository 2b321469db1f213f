"""Frames of a slice from segment files, while retention removes some of them."""

from pathlib import Path

import pytest

import quiver
from quiver.model.errors import OffsetOutOfRange
from quiver.records.read import open_frame
from quiver_spark.direct.catalogue import DirectCatalogue
from quiver_spark.direct.frames import direct_frames
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

FILLER = bytes(30_000)


def fill(client: quiver.Client) -> None:
    """More than a segment."""
    with client.producer("orders") as out:
        for _ in range(3):
            out.send(FILLER).result()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """One producer has aborted a transaction and committed another one, in different segments."""
    with quiver.open(tmp_path) as client:
        client.topics.create("orders", partitions=1, segment_bytes="64KiB")
        producer = client.transactional("one")
        with producer.begin() as aborted:
            aborted.publish("orders", b"aborted")
            aborted.flush()
            aborted.abort()
        fill(client)
        with producer.begin() as committed:
            committed.publish("orders", b"committed")
        fill(client)
    return tmp_path


def read(slice_: Slice, options: ReadOptions) -> list[bytes | None]:
    found = direct_frames(slice_, options, lambda header: True)
    values = [value for each in found for value in open_frame(each.buffer, each.position).values()]
    return [value for value in values if value != FILLER]


def test_a_transaction_is_not_hidden_by_an_earlier_one_whose_marker_is_gone(directory: Path) -> None:
    options = ReadOptions(path=str(directory), topics=("orders",), fail_on_data_loss=False)
    catalogue = DirectCatalogue(options)
    extent = catalogue.extent("orders")
    slice_ = catalogue.completed(Slice("orders", 0, 0, extent.latest[0]))
    assert read(slice_, options) == [b"committed"]
    first = catalogue.log("orders", 0).segments[0].path
    catalogue.close()
    for path in (first, first.with_suffix(".index")):
        path.unlink()
    assert read(slice_, options) == [b"committed"]
    with pytest.raises(OffsetOutOfRange, match="gone"):
        read(slice_, options._replace(fail_on_data_loss=True))
