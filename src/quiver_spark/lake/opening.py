"""Opens and creates lakes: which format, which partition columns, which catalog."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from quiver.model.errors import CorruptData, InvalidRequest
from quiver_spark.lake.files import PARTITION_COLUMNS, POSSIBLE_PARTITION_COLUMNS
from quiver_spark.lake.schema import LAKE_SCHEMA, OLDEST_SCHEMA
from quiver_spark.lake.storage.place import LakePlace, lake_place
from quiver_spark.lake.storage.store import Store, open_store
from quiver_spark.lake.table import Lake
from quiver_spark.lake.tables.delta import check_installed, create_delta, open_delta
from quiver_spark.lake.tables.table_format import LakeTable

FORMATS = ("delta", "iceberg")
_DESCRIPTION = "_quiver/lake.json"


class LakeSettings(NamedTuple):
    """How a lake is created; None is the default. For a lake that exists they must be the same."""

    format: str | None = None
    partition_by: tuple[str, ...] | None = None
    catalog: str | None = None
    """Iceberg: the name of a catalog that pyiceberg is configured for."""
    table: str | None = None
    """Iceberg: the table in that catalog, with its namespace."""


class _Description(msgspec.Struct):
    """Where the table of an Iceberg lake is, so that a lake is opened by its place alone."""

    table: str
    catalog: str | None = None
    format: str = "iceberg"


def lake_settings(
    format: str | None = None, partition_by: str | None = None, catalog: str | None = None, table: str | None = None
) -> LakeSettings:
    """Settings from texts. Raises InvalidRequest for what no lake can be."""
    if format is not None and format not in FORMATS:
        raise InvalidRequest(problem=f"format {format!r} is not one of {', '.join(FORMATS)}")
    if (catalog or table) and format != "iceberg":
        raise InvalidRequest(problem="a catalog and a table in it are for the format iceberg")
    if table is not None and "." not in table:
        raise InvalidRequest(problem=f"table {table!r} has no namespace, as in lake.messages")
    columns = None if partition_by is None else tuple(name.strip() for name in partition_by.split(","))
    for name in columns or ():
        if name not in POSSIBLE_PARTITION_COLUMNS or (columns or ()).count(name) > 1:
            known = ", ".join(POSSIBLE_PARTITION_COLUMNS)
            raise InvalidRequest(problem=f"partition-by {partition_by!r}: name some of {known}, each once")
    return LakeSettings(format, columns, catalog, table)


def open_lake(path: str | Path | LakePlace, *, create: bool = False, settings: LakeSettings | None = None) -> Lake:
    """The lake in a place. Raises InvalidRequest if there is none and `create` is not set."""
    place, settings = lake_place(path), settings or LakeSettings()
    check_installed()
    store = open_store(place)
    table = _existing(place, store)
    if table is None:
        if not create:
            raise InvalidRequest(problem=f"there is no lake in {place}; quiver pipeline archive creates one")
        _create(place, store, settings)
        table = _existing(place, store)
        assert table is not None
    lake = Lake(place, store, table)
    if not set(OLDEST_SCHEMA.names) <= set(lake.schema().names):
        raise InvalidRequest(problem=f"the table in {place} was not made by quiver; choose another place")
    _check_same(lake, table, settings)
    return lake


def _existing(place: LakePlace, store: Store) -> LakeTable | None:
    content = _described(place, store)
    if content is None:
        return open_delta(place)
    try:
        described = msgspec.json.decode(content, type=_Description)
    except msgspec.MsgspecError as error:
        raise CorruptData(f"{place}/{_DESCRIPTION} is damaged ({error}): restore it from a backup") from None
    _check_iceberg()
    from quiver_spark.lake.tables.iceberg import open_iceberg
    from quiver_spark.lake.tables.iceberg_catalog import iceberg_catalog

    return open_iceberg(place, iceberg_catalog(place, described.catalog), described.table)


def _described(place: LakePlace, store: Store) -> bytes | None:
    try:
        return store.read(_DESCRIPTION)
    except OSError as error:
        raise InvalidRequest(problem=f"the lake in {place} cannot be reached: {error}") from None


def _create(place: LakePlace, store: Store, settings: LakeSettings) -> None:
    columns = settings.partition_by or PARTITION_COLUMNS
    if place.is_local:
        Path(place.uri).mkdir(parents=True, exist_ok=True)
    if settings.format != "iceberg":
        create_delta(place, LAKE_SCHEMA, columns)
        return
    _check_iceberg()
    from quiver_spark.lake.tables.iceberg import create_iceberg
    from quiver_spark.lake.tables.iceberg_catalog import OWN_TABLE, iceberg_catalog

    table = settings.table or (OWN_TABLE if settings.catalog is None else f"quiver.{place.name.replace('-', '_')}")
    create_iceberg(place, iceberg_catalog(place, settings.catalog), table, LAKE_SCHEMA, columns)
    store.write(_DESCRIPTION, msgspec.json.encode(_Description(table, settings.catalog)))


def _check_iceberg() -> None:
    try:
        import pyiceberg  # noqa: F401
    except ImportError:
        raise InvalidRequest(problem='pyiceberg is not installed: pip install "quivermq[lake]"') from None


def _check_same(lake: Lake, table: LakeTable, settings: LakeSettings) -> None:
    """Raises InvalidRequest if the lake was created in another way than it is asked for."""
    if settings.format not in (None, table.format):
        raise InvalidRequest(problem=f"the lake in {lake.place} has the format {table.format}; choose another place")
    if settings.partition_by not in (None, table.partition_columns):
        raise InvalidRequest(
            problem=f"the lake in {lake.place} is partitioned by {lake.layout}, not by"
            f" {','.join(settings.partition_by or ())}; choose another place"
        )
