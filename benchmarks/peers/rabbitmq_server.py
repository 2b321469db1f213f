"""A RabbitMQ node of our own, with its own epmd, its own ports and the stream plugin."""

import os
from pathlib import Path

from benchmarks.servers.presence import absence, find_program
from benchmarks.servers.server import HOST, free_port, fresh_directory, spawn, wait_for_port
from benchmarks.subject import Subject


class RabbitServer(Subject):
    """What the two RabbitMQ subjects share."""

    client_module = "pika"

    def missing(self) -> str | None:
        return absence(program="rabbitmq-server", found=_server_program(), module=self.client_module)

    def start(self, scratch: Path) -> None:
        directory = fresh_directory(scratch / self.name)
        self.port, self.stream_port = free_port(), free_port()
        epmd_port = free_port()
        (directory / "enabled_plugins").write_text("[rabbitmq_stream].\n")
        (directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {HOST}:{self.port}\n"
            f"stream.listeners.tcp.1 = {HOST}:{self.stream_port}\n"
            f"stream.advertised_host = {HOST}\n"
            f"stream.advertised_port = {self.stream_port}\n"
            "log.file.level = warning\n"
        )
        environment = _environment(directory, epmd_port)
        epmd = spawn(
            [str(find_program("epmd")), "-port", str(epmd_port), "-address", HOST],
            directory / "epmd.log",
            env=environment,
        )
        node = spawn([str(_server_program())], directory / "server.log", env=environment)
        self._processes = [node, epmd]
        wait_for_port(self.port, node)
        wait_for_port(self.stream_port, node)
        self.version = f"RabbitMQ {_version(str(_server_program()))}"


def _server_program() -> str | None:
    """The server's own script: the one on the PATH switches to a system user and its directories."""
    return find_program("rabbitmq-server-script", "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")


def _version(program: str) -> str:
    folder = Path(program).parent.parent.name
    return folder.rsplit("-", 1)[-1]


def _environment(directory: Path, epmd_port: int) -> dict[str, str]:
    return os.environ | {
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_NODENAME": f"bench{epmd_port}@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_LOGS": str(directory / "log" / "node.log"),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
    }
