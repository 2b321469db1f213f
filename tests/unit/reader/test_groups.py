"""Names of groups from a data directory: from a snapshot of their journal, and from what is behind it."""

from pathlib import Path

from tests.unit.coordination.metadata import Metadata

from quiver.groups.service import Groups
from quiver.reader.data_directory import DataDirectory
from quiver.storage.local.storage import LocalStorage
from quiver.system.clock import SystemClock


def group_names(path: Path) -> dict[int, str]:
    return DataDirectory(path).group_names()


async def open_groups(storage: LocalStorage) -> tuple[Groups, Metadata]:
    metadata = Metadata()
    service = Groups(metadata.view, clock=SystemClock())
    await metadata.open(storage)
    return service, metadata


async def test_groups_of_a_snapshot_and_behind_it(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    await storage.open()
    assert group_names(tmp_path) == {}
    service, metadata = await open_groups(storage)
    first, second = await service.queue_group("billing", "none"), await service.queue_group("mail", "key")
    assert group_names(tmp_path) == {first.id: "billing", second.id: "mail"}, "beside the broker"
    await metadata.close()
    again, metadata = await open_groups(storage)
    await again.delete("mail")
    third = await again.queue_group("mail", "key")
    assert third.id != second.id
    assert group_names(tmp_path) == {first.id: "billing", third.id: "mail"}
    await metadata.close()
    await storage.close()
    assert group_names(tmp_path) == {first.id: "billing", third.id: "mail"}, "without one"
