"""Connections without sockets: every way in which requests can be cut, joined, broken off and left unread."""

import asyncio
from typing import Any

import pytest

from quiver.gateways.http.wire.connection import HttpConnection
from quiver.gateways.http.wire.exchange import ClientGone, Exchange
from quiver.model.errors import Overloaded, QuiverError
from quiver.model.limits import HTTP_DISCARDED_BYTES, HTTP_HEAD_BYTES, HTTP_IDLE_SECONDS, KIB
from quiver.system.memory_budget import MemoryBudget

GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST /topics/a%2Fb/messages?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\nhello world"
CHUNKED = (
    b"POST /topics/a%2Fb/messages?x=1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n6;name=value\r\n world\r\n0\r\n\r\n"
)


class FakeTransport:
    def __init__(self) -> None:
        self.written = b""
        self.closing = self.aborted = False
        self.reading = True
        self.unsent_bytes = 0

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.1", 5000)

    def write(self, data: bytes) -> None:
        assert not self.closing
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes


class Peer:
    """A client at the other end of a connection, and the server behind it, which only remembers requests."""

    date_line = b"date: today\r\n"

    def __init__(self, budget_bytes: int = 1_000_000) -> None:
        self.budget = MemoryBudget(budget_bytes, request_bytes=budget_bytes)
        self.served: list[Exchange] = []
        self.is_closed = False
        self.transport = FakeTransport()
        self.connection = HttpConnection(self)
        self.connection.connection_made(self.transport)

    def opened(self, connection: HttpConnection) -> QuiverError | None:
        return None

    def closed(self, connection: HttpConnection) -> None:
        self.is_closed = True

    def serve(self, exchange: Exchange) -> None:
        self.served.append(exchange)

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def respond(self, status: int = 200, body: bytes = b"ok") -> bytes:
        """To the request that is being handled; returns what the client gets."""
        self.transport.written = b""
        self.served[-1].respond(status, [(b"content-type", b"text/plain")], body)
        return self.transport.written

    def check(self, now: float) -> None:
        self.connection.check(now, 30.0, KIB)


@pytest.fixture
async def peer() -> Peer:
    return Peer()


async def body_of(exchange: Exchange) -> bytes:
    body = b""
    while not exchange.is_whole:
        body += exchange.take()
        await exchange.more()
    return body + exchange.take()


@pytest.mark.parametrize("request_bytes", [POST, CHUNKED], ids=["length", "chunked"])
async def test_a_request_may_be_cut_anywhere(request_bytes):
    for cut in range(len(request_bytes) + 1):
        peer = Peer()
        for part in (request_bytes[:cut], request_bytes[cut:]):
            if part:
                peer.send(part)
        [exchange] = peer.served
        head = exchange.head
        assert (head.method, head.path, head.query) == ("POST", "/topics/a%2Fb/messages", b"x=1"), cut
        assert head.headers[b"host"] == b"localhost"
        assert await body_of(exchange) == b"hello world", cut
        assert peer.budget.held_bytes == 0


async def test_a_request_may_come_byte_by_byte_and_the_next_one_follows(peer):
    for request in (POST, CHUNKED, GET):
        for number in range(len(request)):
            peer.send(request[number : number + 1])
        assert peer.served[-1].is_whole
        assert peer.respond().startswith(b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-type: text/plain\r\n")
    assert len(peer.served) == 3


async def test_requests_sent_at_once_are_handled_one_after_the_other(peer):
    peer.send(POST + GET + CHUNKED)
    assert len(peer.served) == 1
    peer.respond()
    assert [exchange.head.method for exchange in peer.served] == ["POST", "GET"]
    peer.respond()
    assert await body_of(peer.served[2]) == b"hello world"
    peer.respond()
    assert (len(peer.served), peer.transport.closing) == (3, False)


async def test_what_follows_broken_bytes_is_refused_after_the_responses_before_it(peer):
    peer.send(POST + GET + b"\x00garbage")
    assert peer.transport.written == b""
    assert peer.respond() != b""
    assert not peer.transport.closing
    written = peer.respond()
    assert written.startswith(b"HTTP/1.1 200 OK")
    assert b"HTTP/1.1 400 Refused" in written
    assert peer.transport.closing


async def test_a_body_that_breaks_is_refused_at_once(peer):
    peer.send(CHUNKED.partition(b"6;")[0])
    peer.send(b"zz\r\n")
    assert peer.transport.written.startswith(b"HTTP/1.1 400 Refused")
    [exchange] = peer.served
    with pytest.raises(ClientGone):
        exchange.take()
    exchange.respond(200, [], b"too late")
    assert b"too late" not in peer.transport.written


async def test_a_body_that_breaks_after_its_response_only_ends_the_connection(peer):
    peer.send(CHUNKED.partition(b"6;")[0])
    peer.respond(413)
    written = peer.transport.written
    peer.send(b"zz\r\n")
    assert (peer.transport.written, peer.transport.aborted) == (written, True)


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_head_without_end_is_refused_at_its_limit(peer, at_once):
    head = b"GET /health HTTP/1.1\r\n" + b"x-header: y\r\n" * (HTTP_HEAD_BYTES // 10)
    step = len(head) if at_once else 1000
    for start in range(0, len(head), step):
        if not peer.transport.closing:
            peer.send(head[start : start + step])
    assert peer.transport.written.startswith(b"HTTP/1.1 400 Refused")
    assert (peer.served, peer.transport.closing) == ([], True)
    peer.connection.connection_lost(None)
    assert peer.budget.held_bytes == 0


async def test_thousands_of_requests_at_once_are_left_unparsed_until_it_is_their_turn(peer):
    count = 5_000
    peer.send(b"GET / HTTP/1.1\r\n\r\n" * count)
    assert not peer.transport.reading
    assert peer.budget.held_bytes > 50_000
    for number in range(count):
        assert len(peer.served) == number + 1
        peer.respond()
    assert (peer.budget.held_bytes, peer.transport.reading) == (0, True)


async def test_what_waits_is_counted_over_all_clients():
    peer = Peer(budget_bytes=100_000)
    others = peer.budget.open()
    others.take(99_000)
    peer.send(b"GET / HTTP/1.1\r\n\r\n" * 5_000)
    assert peer.transport.written == b""
    assert b"HTTP/1.1 503 Refused" in peer.respond()
    others.close()
    peer.connection.connection_lost(None)
    assert peer.budget.held_bytes == 0


async def test_nothing_after_the_last_request_is_looked_at(peer):
    peer.send(b"POST / HTTP/1.1\r\nconnection: close\r\ncontent-length: 2\r\n\r\nab" + GET + b"\x00")
    peer.send(GET)
    written = peer.respond()
    assert b"\r\nconnection: close\r\n" in written
    assert (len(peer.served), peer.transport.closing, peer.transport.written) == (1, True, written)


async def test_an_old_client_gets_a_stream_without_chunks_and_the_end(peer):
    peer.send(b"GET /x HTTP/1.0\r\nexpect: 100-continue\r\n\r\n")
    [exchange] = peer.served
    assert exchange.begin(200, [])
    await exchange.send(b"piece")
    exchange.end()
    head, _, body = peer.transport.written.partition(b"\r\n\r\n")
    assert (b"chunked" in head, body, peer.transport.closing) == (False, b"piece", True)


async def test_a_stream_has_chunks_and_no_empty_one_before_its_end(peer):
    peer.send(GET)
    [exchange] = peer.served
    exchange.begin(200, [])
    for piece in (b"one", b"", b"three"):
        await exchange.send(piece)
    exchange.end()
    assert peer.transport.written.endswith(b"\r\n\r\n3\r\none\r\n5\r\nthree\r\n0\r\n\r\n")
    assert not peer.transport.closing


async def test_head_gets_no_body(peer):
    peer.send(GET.replace(b"GET", b"HEAD"))
    assert peer.respond(body=b"four").endswith(b"content-length: 4\r\n\r\n")
    peer.send(GET.replace(b"GET", b"HEAD"))
    peer.transport.written = b""
    assert not peer.served[-1].begin(200, [])
    assert peer.transport.written.endswith(b"\r\n\r\n")
    peer.send(GET)
    assert len(peer.served) == 3


async def test_a_client_that_waits_for_permission_gets_it_when_its_body_is_wanted(peer):
    head, _, body = POST.partition(b"\r\n\r\n")
    peer.send(head + b"\r\nExpect: 100-Continue\r\n\r\n")
    [exchange] = peer.served
    assert peer.transport.written == b""
    reading = asyncio.ensure_future(body_of(exchange))
    await asyncio.sleep(0)
    assert peer.transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    peer.send(body)
    assert await reading == b"hello world"
    assert b"connection" not in peer.respond()


async def test_a_client_that_waits_for_permission_and_is_refused_is_told_that_nothing_follows(peer):
    """It may send the body all the same, or not: what comes next could be either."""
    peer.send(POST.partition(b"\r\n\r\n")[0] + b"\r\nexpect: 100-continue\r\n\r\n")
    assert b"\r\nconnection: close\r\n" in peer.respond(413)
    assert peer.transport.closing


async def test_a_client_that_leaves_in_the_middle(peer):
    peer.send(POST[:-3])
    [exchange] = peer.served
    assert exchange.take() == b"hello wo"
    waiting = asyncio.ensure_future(exchange.more())
    await asyncio.sleep(0)
    peer.connection.connection_lost(None)
    await waiting
    with pytest.raises(ClientGone):
        exchange.take()
    with pytest.raises(ClientGone):
        exchange.begin(200, [])
    with pytest.raises(ClientGone):
        await exchange.send(b"x")
    assert peer.is_closed


async def test_no_more_is_read_than_the_handler_takes(peer):
    peer.send(b"POST / HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n")
    [exchange] = peer.served
    sent = 0
    while peer.transport.reading:
        peer.send(b"x" * 10_000)
        sent += 10_000
    assert sent < 100_000
    assert len(exchange.take()) == sent
    assert peer.transport.reading
    peer.send(b"x" * (1_000_000 - sent))
    assert not peer.transport.reading
    taken = sent
    while not exchange.is_whole:
        taken += len(exchange.take())
    assert taken + len(exchange.take()) == 1_000_000
    assert peer.transport.reading


async def test_the_rest_of_a_refused_body_is_dropped_up_to_a_limit(peer):
    peer.send(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (2 * HTTP_DISCARDED_BYTES))
    peer.respond(413)
    piece = b"x" * (HTTP_DISCARDED_BYTES // 4)
    for _ in range(4):
        peer.send(piece)
    assert not peer.transport.aborted
    peer.send(piece)
    assert peer.transport.aborted


async def test_a_client_that_takes_no_responses_gets_no_more_of_them(peer):
    peer.send(GET * 3)
    peer.connection.pause_writing()
    peer.respond()
    assert len(peer.served) == 1
    peer.connection.resume_writing()
    assert len(peer.served) == 2


async def test_a_stream_waits_for_its_client_and_ends_with_it(peer):
    peer.send(GET)
    [exchange] = peer.served
    exchange.begin(200, [])
    peer.connection.pause_writing()
    sending = asyncio.ensure_future(exchange.send(b"x"))
    await asyncio.sleep(0)
    assert not sending.done()
    peer.connection.connection_lost(None)
    with pytest.raises(ClientGone):
        await sending


async def test_an_upgrade_is_declined_and_the_next_request_served(peer):
    upgrade = GET.replace(b"\r\n\r\n", b"\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
    peer.send(upgrade + GET)
    peer.respond()
    assert [exchange.head.path for exchange in peer.served] == ["/health", "/health"]
    assert b"HTTP/1.1 200" in peer.respond()


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/a?b=c?d", "/a", b"b=c?d"),
        (b"http://elsewhere:80/a?b", "/a", b"b"),
        (b"http://elsewhere", "/", b""),
        (b"/a#b", "/a", b""),
        (b"//a", "//a", b""),
        (b"*", "*", b""),
    ],
)
async def test_targets(peer, target, path, query):
    peer.send(b"OPTIONS " + target + b" HTTP/1.1\r\n\r\n")
    assert (peer.served[0].head.path, peer.served[0].head.query) == (path, query)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"CONNECT host:80 HTTP/1.1\r\n\r\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\na: b\r\n c: d\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_refused(peer, request_bytes):
    peer.send(request_bytes)
    assert peer.transport.written.startswith(b"HTTP/1.1 400 Refused")
    assert (peer.served, peer.transport.closing) == ([], True)


async def test_too_many_connections():
    class Full(Peer):
        def opened(self, connection: HttpConnection) -> QuiverError | None:
            return Overloaded(problem="full")

    peer = Full()
    assert peer.transport.written.startswith(b"HTTP/1.1 503 Refused")
    assert peer.transport.closing


async def test_an_idle_connection_is_closed_and_one_that_waits_for_its_response_is_not(peer):
    loop = asyncio.get_running_loop()
    peer.send(GET)
    peer.check(loop.time() + 10 * HTTP_IDLE_SECONDS)
    assert not peer.transport.closing
    peer.respond()
    peer.check(loop.time() + HTTP_IDLE_SECONDS / 2)
    assert not peer.transport.closing
    peer.check(loop.time() + HTTP_IDLE_SECONDS + 1)
    assert (peer.transport.closing, peer.transport.aborted) == (True, False)


async def test_small_requests_now_and_then_are_not_slow(peer):
    """A connection that is between two requests whenever it is looked at keeps its client."""
    now = asyncio.get_running_loop().time()
    for step in range(20):
        peer.send(GET)
        peer.respond()
        peer.connection.check(now + step * HTTP_IDLE_SECONDS / 20, HTTP_IDLE_SECONDS / 4, KIB)
    assert not peer.transport.closing


@pytest.mark.parametrize("sent", [GET[:5], POST[:-3], CHUNKED[:-5]], ids=["head", "body", "chunk"])
async def test_a_request_that_comes_too_slowly_is_408(peer, sent):
    for _ in range(2):
        peer.check(0.0)
    peer.send(sent)
    peer.check(20.0)
    assert not peer.transport.closing
    peer.check(60.0)
    assert peer.transport.written.startswith(b"HTTP/1.1 408 Refused")
    assert peer.transport.closing


async def test_half_a_request_behind_one_that_waits_does_not_end_that_one(peer):
    peer.send(GET + POST[:-3])
    for now in (0.0, 60.0, 120.0):
        peer.check(now)
    assert not peer.transport.closing
    written = peer.respond()
    assert written.startswith(b"HTTP/1.1 200 OK")
    assert b"HTTP/1.1 408 Refused" in written


async def test_a_client_that_takes_nothing_is_cut_off_also_while_the_connection_closes(peer):
    peer.send(GET)
    peer.respond()
    peer.transport.unsent_bytes = len(peer.transport.written)
    peer.transport.close()
    peer.check(0.0)
    assert not peer.transport.aborted
    peer.check(60.0)
    assert peer.transport.aborted


async def test_a_stop_closes_idle_connections_and_lets_the_others_end():
    idle, busy = Peer(), Peer()
    busy.send(GET * 2)
    for peer in (idle, busy):
        peer.connection.stop()
    assert (idle.transport.closing, busy.transport.closing) == (True, False)
    assert b"\r\nconnection: close\r\n" in busy.respond()
    assert (len(busy.served), busy.transport.closing) == (1, True)
