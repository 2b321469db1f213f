"""A lake in an object store or in HDFS, through Arrow's file systems."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from quiver.model.errors import InvalidRequest
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.storage.store import Output, StoredFile

_ATTEMPTS = 8
"""Of each request to S3, with growing pauses: about half a minute in all."""
_CONNECT_SECONDS = 5.0


class ObjectOutput:
    """Objects appear under their names when they are complete."""

    def __init__(self, files: fs.FileSystem, root: str, path: str) -> None:
        self._files = files
        self._root = root
        self._path = path
        self._stream = files.open_output_stream(f"{root}/{path}")

    @property
    def stream(self) -> Any:
        return self._stream

    def flush(self) -> None:
        return

    def finish(self, path: str) -> int:
        size = int(self._stream.tell())
        try:
            self._stream.close()
        except OSError:
            # The store may have completed the object although its response was lost.
            if self._files.get_file_info(f"{self._root}/{self._path}").size != size:
                raise
        if path != self._path:
            self._files.move(f"{self._root}/{self._path}", f"{self._root}/{path}")
        return size

    def abandon(self) -> None:
        """Arrow cannot abort an upload from Python: it is completed and deleted. Nothing refers to it."""
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._files.delete_file(f"{self._root}/{self._path}")


class ObjectStore:
    def __init__(self, place: LakePlace) -> None:
        self._files, self._root = file_system(place)

    def create(self, path: str) -> Output:
        return ObjectOutput(self._files, self._root, path)

    def source(self, path: str) -> Any:
        return self._files.open_input_file(self._at(path))

    def read(self, path: str) -> bytes | None:
        try:
            with self._files.open_input_file(self._at(path)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        with self._files.open_output_stream(self._at(path)) as file:
            file.write(content)

    def missing(self, paths: Iterable[str]) -> list[str]:
        named = list(paths)
        found = self._files.get_file_info([self._at(path) for path in named])
        return [path for path, info in zip(named, found, strict=True) if info.type != fs.FileType.File]

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self._at(path))

    def files(self) -> Iterator[StoredFile]:
        chosen = fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        for info in self._files.get_file_info(chosen):
            if info.type == fs.FileType.File:
                modified = 0 if info.mtime_ns is None else info.mtime_ns // 1_000_000
                yield StoredFile(info.path.removeprefix(f"{self._root}/"), info.size, modified)

    def make_names_durable(self, paths: Iterable[str]) -> None:
        return

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"


def file_system(place: LakePlace) -> tuple[fs.FileSystem, str]:
    """Arrow's file system for a place, and the path of the place in it."""
    path = place.uri.partition("://")[2]
    match place.scheme:
        case "s3":
            return _s3(place, path), path
        case "gs":
            return _gcs(place), path
        case "abfs":
            return _azure(place, path)
        case _:
            return _hdfs(place)


def _s3(place: LakePlace, path: str) -> fs.FileSystem:
    endpoint = place.setting("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    region = place.setting("AWS_REGION", "AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = _region_of(path.partition("/")[0])
    _choose_checksums(place, endpoint)
    return fs.S3FileSystem(
        access_key=place.setting("AWS_ACCESS_KEY_ID"),
        secret_key=place.setting("AWS_SECRET_ACCESS_KEY"),
        session_token=place.setting("AWS_SESSION_TOKEN"),
        region=region or "us-east-1",
        endpoint_override=endpoint,
        connect_timeout=_CONNECT_SECONDS,
        allow_delayed_open=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        tls_ca_file_path=place.setting("AWS_CA_BUNDLE"),
    )


def _choose_checksums(place: LakePlace, endpoint: str | None) -> None:
    """Amazon's library adds checksums after the body, in chunks of unknown length, which many other stores refuse.
    It reads this setting from the environment of the process only."""
    name = "AWS_REQUEST_CHECKSUM_CALCULATION"
    chosen = place.setting(name) or (None if endpoint is None else "when_required")
    if chosen is not None:
        os.environ[name] = chosen


def _region_of(bucket: str) -> str:
    try:
        return str(fs.resolve_s3_region(bucket))
    except OSError as error:
        raise InvalidRequest(
            problem=f"the region of the bucket {bucket!r} is not known ({error}): set AWS_REGION, or AWS_ENDPOINT_URL"
            " for a store that is not Amazon's"
        ) from None


def _gcs(place: LakePlace) -> fs.FileSystem:
    """Credentials are those of the application (GOOGLE_APPLICATION_CREDENTIALS), which Google's library finds."""
    emulator = place.setting("STORAGE_EMULATOR_HOST")
    if emulator is None:
        return fs.GcsFileSystem()
    found = urlsplit(emulator if "://" in emulator else f"http://{emulator}")
    return fs.GcsFileSystem(anonymous=True, scheme=found.scheme, endpoint_override=found.netloc)


def _azure(place: LakePlace, path: str) -> tuple[fs.FileSystem, str]:
    """`abfs://container@account.dfs.core.windows.net/path`, or `abfs://container/path` with the account from the
    environment."""
    container, _, rest = path.partition("/")
    container, _, host = container.partition("@")
    account = host.partition(".")[0] or place.setting("AZURE_STORAGE_ACCOUNT_NAME")
    if account is None:
        raise InvalidRequest(
            problem=f"the lake {place.uri} names no account: set AZURE_STORAGE_ACCOUNT_NAME, or write"
            " abfs://container@account.dfs.core.windows.net/lake"
        )
    local = {}
    if (place.setting("AZURE_STORAGE_USE_EMULATOR") or "").lower() in ("1", "true"):
        address = {f"{kind}_storage_{part}": value for kind in ("blob", "dfs")
                   for part, value in (("authority", "127.0.0.1:10000"), ("scheme", "http"))}  # fmt: skip
        local = address
    files = fs.AzureFileSystem(
        account_name=account,
        account_key=place.setting("AZURE_STORAGE_ACCOUNT_KEY"),
        sas_token=place.setting("AZURE_STORAGE_SAS_TOKEN"),
        client_id=place.setting("AZURE_CLIENT_ID"),
        client_secret=place.setting("AZURE_CLIENT_SECRET"),
        tenant_id=place.setting("AZURE_TENANT_ID"),
        **local,
    )
    return files, f"{container}/{rest}" if rest else container


def _hdfs(place: LakePlace) -> tuple[fs.FileSystem, str]:
    try:
        found, path = fs.FileSystem.from_uri(place.uri)
    except OSError as error:
        raise InvalidRequest(
            problem=f"the lake {place.uri} cannot be reached ({error}): HDFS needs libhdfs, JAVA_HOME, HADOOP_HOME"
            " and CLASSPATH on the driver and all workers"
        ) from None
    return found, path.rstrip("/")
