"""Requests that wait while the store is away are answered; what they began goes on."""

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from quiver.gateways.http import open_requests
from quiver.gateways.http.application import Application
from quiver.gateways.http.operation import Begun, Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.wire.server import HttpServer
from quiver.model.limits import KIB, Limits
from quiver.system.memory_budget import DEFAULT_BYTES, MemoryBudget


class Store:
    """A store that can be away, and requests that wait for it."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.is_back = asyncio.Event()
        self.done: list[str] = []

    async def write(self, request: Request) -> Response:
        request.waits = request.query_string == b"wait"
        await self.is_back.wait()
        self.done.append(request.path)
        return Response({"stored": True})

    def begin(self, request: Request) -> Begun:
        future: asyncio.Future[bool] = asyncio.ensure_future(self.is_back.wait())
        return Begun(future, lambda: Response({"stored": True}))

    def routes(self) -> Routes:
        task = Operation(handler=self.write, summary="", tag="", response=None)
        return {
            "/task": {"POST": task},
            "/begun": {"POST": Operation(handler=self.write, begin=self.begin, summary="", tag="", response=None)},
        }


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(open_requests, "ANSWERED_AFTER_SECONDS", 0.05)
    return Store()


@pytest.fixture
async def client(store: Store) -> AsyncIterator[httpx.AsyncClient]:
    budget = MemoryBudget(DEFAULT_BYTES)
    application = Application(store.routes(), Limits(), budget)
    application.watch(lambda: store.problem)
    server = HttpServer(application.begin, budget, lambda: 0, None, application.answer_overdue)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    await server.start(listener, 0.1, KIB)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=30) as client:
        yield client
    await server.stop(grace=0.5)


@pytest.mark.parametrize("path", ["/task", "/begun"])
async def test_a_request_is_answered_and_what_it_began_goes_on(
    store: Store, client: httpx.AsyncClient, path: str
) -> None:
    store.problem = "it does not respond"
    refused = await client.post(path, json={})
    assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (
        503,
        "storage_unavailable",
        True,
    )
    assert "it does not respond; what was asked for may have been done" in refused.json()["error"]
    store.problem = None
    store.is_back.set()
    assert (await client.post(path, json={})).json() == {"stored": True}, "the connection goes on"
    assert store.done == (["/task", "/task"] if path == "/task" else [])


async def test_requests_wait_while_the_store_is_there_and_where_they_asked_to_wait(
    store: Store, client: httpx.AsyncClient
) -> None:
    slow = asyncio.create_task(client.post("/task", json={}))
    await asyncio.wait([slow], timeout=0.3)
    store.problem = "it does not respond"
    polled = asyncio.create_task(client.post("/task?wait", json={}))
    assert (await slow).status_code == 503
    await asyncio.wait([polled], timeout=0.3)
    assert not polled.done()
    store.problem = None
    store.is_back.set()
    assert (await polled).status_code == 200
