"""One run of `quiver doctor`: which broker and directory it is about, and every finding."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from quiver.app.config import LoadedConfig, load_config, shown_values
from quiver.cli.connection import DEFAULT_ADDRESS, connect
from quiver.cli.doctor.broker_look import BrokerLook
from quiver.cli.doctor.directory_look import DirectoryLook
from quiver.cli.doctor.finding import Finding, problem
from quiver.cli.doctor.machine_checks import check_open_files
from quiver.cli.doctor.settings_checks import check_settings
from quiver.model.errors import InvalidSetting, QuiverError
from quiver.system.clock import Clock, SystemClock
from quiver.system.machine import open_file_use


class Subject(NamedTuple):
    """What the user named; None where nothing was."""

    address: str | None
    http: str | None
    data_dir: Path | None
    config_file: str | None


class Examination:
    """After `findings` is used up, `broker` and `directory` are what was reached."""

    def __init__(self, subject: Subject, clock: Clock | None = None) -> None:
        self._subject = subject
        self.clock = clock or SystemClock()
        self.broker: BrokerLook | None = None
        self.directory: DirectoryLook | None = None
        self.loaded: LoadedConfig | None = None
        self.address = ""
        """Of the broker."""

    def findings(self) -> Iterator[Finding]:
        yield from self._configuration()
        yield from self._directory()
        yield from self._broker()
        if self.broker is None and self.loaded is not None:
            yield from check_settings(shown_values(self.loaded.config))
            yield check_open_files("a broker started from here", open_file_use())

    def _configuration(self) -> Iterator[Finding]:
        flags = None if self._subject.data_dir is None else {"data_dir": str(self._subject.data_dir)}
        try:
            self.loaded = load_config(flags, config_file=self._subject.config_file)
        except InvalidSetting as error:
            for line in error.message.splitlines():
                yield problem(
                    "configuration", line, "correct it; quiver config shows what is in force and from where"
                )

    def _directory(self) -> Iterator[Finding]:
        if self._subject.data_dir is None:
            return
        min_free_bytes = 0 if self.loaded is None else self.loaded.config.min_free_bytes
        self.directory = DirectoryLook(self._subject.data_dir, self.clock, min_free_bytes)
        yield from self.directory.findings()

    def _broker(self) -> Iterator[Finding]:
        address = self._subject.address or self._address_in_directory()
        if address is None:
            return
        self.address = address
        try:
            with connect(address) as q:
                look = BrokerLook(q, self.clock, self._subject.http)
                self.broker = look
                yield from look.findings()
        except QuiverError as error:
            advice = "check that a broker runs there (quiver serve), and the address (--address, QUIVER_ADDRESS)"
            yield problem("broker", error.message, advice)

    def _address_in_directory(self) -> str | None:
        """The broker that uses the directory; without a directory the usual place."""
        if self.directory is None:
            return DEFAULT_ADDRESS
        running = self.directory.running_broker()
        return None if running is None else str(running["native"])
