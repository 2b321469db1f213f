"""The composed node inside the test's own loop: start, stop, failures on the way."""

import asyncio
import json
import logging
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from quiver.app.addresses import Addresses
from quiver.app.config import Config
from quiver.app.node import start_broker
from quiver.app.serve import Server
from quiver.broker.broker import Broker
from quiver.model.errors import Closed, DataDirectoryInUse, InvalidSetting
from quiver.storage.local.storage import LocalStorage


def config(path: Path, **settings: Any) -> Config:
    return Config(data_dir=path, http_port=0, native_port=0, min_free_bytes=0, **settings)


async def test_a_server_writes_its_ports_and_takes_them_back(tmp_path: Path) -> None:
    server = Server(config(tmp_path))
    addresses = await server.start()
    state = json.loads((tmp_path / "broker.json").read_text())
    assert (state["pid"], state["http_port"], state["native_port"]) == (os.getpid(), *addresses[1:3])
    assert await server.stop() is True
    assert not (tmp_path / "broker.json").exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", addresses.native_port))


async def test_start_and_stop_may_be_repeated(tmp_path: Path) -> None:
    server = Server(config(tmp_path))
    assert await server.start() == await server.start()
    assert await server.stop()
    assert await server.stop()


async def test_a_server_that_was_not_started_can_be_stopped_and_has_no_address(tmp_path: Path) -> None:
    server = Server(config(tmp_path))
    with pytest.raises(Closed):
        _ = server.addresses
    assert await server.stop()


async def test_a_taken_port_frees_the_data_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidSetting, match=str(port)):
            await Server(Config(data_dir=tmp_path, http_port=port, native_port=0)).start()
    running = await start_broker(config(tmp_path))
    await running.stop()


async def test_the_data_belongs_to_one_broker_at_a_time(tmp_path: Path) -> None:
    running = await start_broker(config(tmp_path))
    try:
        with pytest.raises(DataDirectoryInUse, match=str(os.getpid())):
            await start_broker(config(tmp_path))
    finally:
        await running.stop()


async def test_a_broker_that_fails_to_start_leaves_the_data_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: Broker) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(Broker, "start", fail)
        with pytest.raises(RuntimeError, match="no"):
            await start_broker(config(tmp_path))
    running = await start_broker(config(tmp_path))
    await running.stop()


async def test_settings_reach_the_broker(tmp_path: Path) -> None:
    settings = config(tmp_path, auto_create=True, max_message_bytes=2048)
    running = await start_broker(settings)
    try:
        assert running.broker.settings.auto_create is True
        assert running.broker.limits.message_bytes == 2048
    finally:
        await running.stop()


async def test_a_stop_that_hangs_is_given_up_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other parts are closed all the same."""

    async def hang(self: LocalStorage) -> None:
        await asyncio.Event().wait()

    server = Server(config(tmp_path, shutdown_timeout_ms=100))
    await server.start()
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(LocalStorage, "close", hang)
        assert await server.stop() is False
    assert "closing the data" in caplog.text
    assert not (tmp_path / "broker.json").exists()
    assert server._running is not None
    await server._running.data.close()


@pytest.mark.parametrize(
    ("host", "advertise", "shown"),
    [
        ("127.0.0.1", None, "127.0.0.1"),
        ("0.0.0.0", None, "localhost"),
        ("0.0.0.0", "broker.example", "broker.example"),
    ],
)
async def test_clients_are_told_an_address_that_they_can_use(
    tmp_path: Path, host: str, advertise: str | None, shown: str
) -> None:
    server = Server(config(tmp_path, host=host, advertise=advertise))
    try:
        assert (await server.start()).host == shown
    finally:
        await server.stop()


def test_an_ipv6_host_is_bracketed() -> None:
    assert Addresses("::1", 80, 81).http == "http://[::1]:80"
    assert Addresses("::1", 80, 81).native == "[::1]:81"
