"""Everything that `quiver doctor` asks a broker, once, over both of its ports."""

import platform
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import quiver
from quiver.cli.doctor.finding import Finding, ok, problem, warning
from quiver.cli.doctor.health_checks import check_health, check_versions
from quiver.cli.doctor.machine_checks import check_clock, check_disk, check_open_files
from quiver.cli.doctor.settings_checks import check_settings
from quiver.cli.doctor.work_checks import DeadLetterCount, GroupWork, check_dead_letters, check_groups
from quiver.cli.http_source import HttpSource, http_source
from quiver.model.errors import GroupNotFound, QuiverError, TopicNotFound
from quiver.model.times import parse_time_ms
from quiver.system.clock import Clock
from quiver.system.machine import FileSystem, OpenFileUse

if TYPE_CHECKING:
    from quiver.client import Client

_DEAD_LETTERS = ".dlq"
_HOUR = "-1h"
_DESCRIBED_GROUPS = 500
"""The age of the oldest message is asked for so many groups at most."""


class BrokerLook:
    """A connected broker. Each check raises nothing: what cannot be asked is a finding."""

    def __init__(self, q: "Client", clock: Clock, http: str | None = None) -> None:
        self._q = q
        self._clock = clock
        self._http = http
        self.source: HttpSource | None = None
        self.node: dict[str, Any] = {}
        """The response of /node, once `findings` has asked for it."""

    def findings(self) -> Iterator[Finding]:
        yield ok("broker", f"{self._q.address} responds")
        try:
            self.source = http_source(self._q, self._http)
            yield from self._over_http(self.source)
        except (QuiverError, ValueError, KeyError) as error:
            yield _unreachable_http(error)
        for name, check in (("groups", self._groups), ("dead letters", self._dead_letters)):
            try:
                yield from check()
            except QuiverError as error:
                yield problem(name, error.message, "the other findings say why, or the broker's log (GET /logs)")

    def _over_http(self, source: HttpSource) -> Iterator[Finding]:
        before = self._clock.now_ms()
        response = source.get("/node")
        after = self._clock.now_ms()
        version = source.get("/version").document()
        if response.status == 200:
            self.node = node = response.document()
            version |= {"python": node["python"]}
            yield from check_versions(version, quiver.__version__, platform.python_version())
            yield check_clock(parse_time_ms(node["time"]), before, after)
            yield from self._process(node)
        else:
            yield from check_versions(version, quiver.__version__, platform.python_version())
        ready = source.get("/readyz?verbose=true").document()
        yield from check_health(ready, set(self._q.topics.list()))

    def _process(self, node: dict[str, Any]) -> Iterator[Finding]:
        settings, where = node["settings"], node["data_dir"]
        yield from check_settings(settings)
        if where is not None:
            disk = FileSystem(where["file_system"], where["mount_point"], where["total_bytes"], where["free_bytes"])
            yield from check_disk(where["path"], disk, settings.get("min_free_bytes", 0))
        files = node["open_files"]
        yield check_open_files("the broker", OpenFileUse(files["open"], files["limit"]))

    def _groups(self) -> Iterator[Finding]:
        return check_groups(list(self._group_work()))

    def _group_work(self) -> Iterator[GroupWork]:
        described = 0
        for group in self._q.groups.list():
            lag_ms = 0
            if group.lag and described < _DESCRIBED_GROUPS:
                described += 1
                with suppress(GroupNotFound):  # deleted since it was listed
                    parts = self._q.groups.describe(group.id).partitions
                    lag_ms = max((part.lag_ms for part in parts), default=0)
            yield GroupWork(group.id, group.kind, group.members, group.lag, lag_ms, group.leased)

    def _dead_letters(self) -> Iterator[Finding]:
        return check_dead_letters(list(self._dead_letter_counts()))

    def _dead_letter_counts(self) -> Iterator[DeadLetterCount]:
        for name in self._q.topics.list():
            if not name.endswith(_DEAD_LETTERS):
                continue
            with suppress(TopicNotFound):  # deleted since it was listed
                since, ends = self._q.offsets(name, _HOUR), self._q.offsets(name, "latest")
                recent = sum(ends[number] - since[number] for number in ends if number in since)
                source = name.removesuffix(_DEAD_LETTERS)
                total = self._q.dead_letters.list(source, limit=1).total
                yield DeadLetterCount(source, total, min(recent, total))


def _unreachable_http(error: Exception) -> Finding:
    message = (
        error.message if isinstance(error, QuiverError) else f"the HTTP port sent something unexpected: {error!r}"
    )
    advice = (
        "check that http_port is reachable from here, or name it with --http URL; health, disk and settings of the "
        "broker are not checked"
    )
    return warning("http", message, advice)
