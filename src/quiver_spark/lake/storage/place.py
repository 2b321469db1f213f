"""The place of a lake: a directory, or a prefix in an object store with the settings to reach it. Pure.

The settings come from the environment of the driver and go to the workers with their tasks, so a worker needs no
environment of its own. What is not set there is left to the defaults of the store, such as the role of a machine.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from quiver.model.errors import InvalidRequest

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT_URL",
        "AWS_CA_BUNDLE",
        "AWS_REQUEST_CHECKSUM_CALCULATION",
    ),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"),
    "abfs": (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_TENANT_ID",
        "AZURE_STORAGE_USE_EMULATOR",
    ),
    "hdfs": ("HADOOP_USER_NAME",),
}
"""The variables that are used, for each kind of store."""
_SAME = {"s3a": "s3", "gcs": "gs", "abfss": "abfs"}


class LakePlace(NamedTuple):
    uri: str
    """An absolute path, or a URI without a slash at its end."""
    scheme: str = "file"
    settings: tuple[tuple[str, str], ...] = ()
    """The variables of the environment that were set."""

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def full_uri(self) -> str:
        """With a scheme, whatever the place is."""
        return f"file://{self.uri}" if self.is_local else self.uri

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.uri.rpartition("/")[2]

    def setting(self, *names: str) -> str | None:
        """The first of these variables that is set."""
        found = dict(self.settings)
        return next((found[name] for name in names if found.get(name)), None)

    def __str__(self) -> str:
        return self.uri

    def __repr__(self) -> str:
        """Settings contain secrets."""
        return f"LakePlace({self.uri!r})"


def lake_place(path: "str | Path | LakePlace", environ: Mapping[str, str] | None = None) -> LakePlace:
    """The place that a path or a URI names. Raises InvalidRequest if there is no such kind of store."""
    if isinstance(path, LakePlace):
        return path
    text = str(path)
    scheme, mark, _ = text.partition("://")
    if not mark:
        return LakePlace(str(Path(text).absolute()))
    if scheme == "file":
        return LakePlace(str(Path(unquote(urlsplit(text).path)).absolute()))
    kind = _SAME.get(scheme, scheme)
    if kind not in SETTINGS:
        known = ", ".join(f"{each}://" for each in SETTINGS)
        raise InvalidRequest(problem=f"the lake {text!r} is neither a directory nor in a store of {known}")
    if not text.removeprefix(f"{scheme}://").partition("/")[0]:
        raise InvalidRequest(problem=f"the lake {text!r} names no bucket, as in {scheme}://bucket/lake")
    given = os.environ if environ is None else environ
    settings = tuple((name, given[name]) for name in SETTINGS[kind] if given.get(name))
    uri = text if scheme == "abfss" else f"{kind}{text.removeprefix(scheme)}"
    return LakePlace(uri.rstrip("/"), kind, settings)
