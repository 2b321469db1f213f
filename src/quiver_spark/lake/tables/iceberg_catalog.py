"""The catalog of an Iceberg lake: one that pyiceberg is configured for, or a SQLite file in the lake's directory."""

from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.utils.config import Config

from quiver.model.errors import InvalidRequest
from quiver_spark.lake.storage.place import LakePlace

OWN_CATALOG = "quiver"
OWN_TABLE = "quiver.messages"
_FILE = Path("_quiver/catalog.sqlite")
_NAMES = {
    "s3.access-key-id": ("AWS_ACCESS_KEY_ID",),
    "s3.secret-access-key": ("AWS_SECRET_ACCESS_KEY",),
    "s3.session-token": ("AWS_SESSION_TOKEN",),
    "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "adls.account-name": ("AZURE_STORAGE_ACCOUNT_NAME",),
    "adls.account-key": ("AZURE_STORAGE_ACCOUNT_KEY",),
    "adls.sas-token": ("AZURE_STORAGE_SAS_TOKEN",),
}


def iceberg_catalog(place: LakePlace, name: str | None) -> Catalog:
    """The catalog with a name in pyiceberg's configuration; the lake's own if there is none."""
    properties: dict[str, Any] = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    for theirs, ours in _NAMES.items():
        if (value := place.setting(*ours)) is not None:
            properties[theirs] = value
    if name is not None:
        return _configured(name, properties)
    if not place.is_local:
        raise InvalidRequest(
            problem=f"an Iceberg lake in {place} needs a catalog: configure one for pyiceberg (~/.pyiceberg.yaml or"
            " PYICEBERG_CATALOG__NAME__URI) and name it with --catalog"
        )
    file = Path(place.uri) / _FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{file}?timeout=60"
    return load_catalog(OWN_CATALOG, type="sql", uri=uri, warehouse=place.full_uri, **properties)


def _configured(name: str, properties: dict[str, Any]) -> Catalog:
    try:
        known = Config().get_catalog_config(name) or {}  # load_catalog itself knows what was there at its import
        return load_catalog(name, **{**known, **properties})
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidRequest(
            problem=f"the catalog {name!r} of pyiceberg cannot be used ({reason}): configure it in ~/.pyiceberg.yaml"
            f" or by PYICEBERG_CATALOG__{name.upper()}__URI"
        ) from None
