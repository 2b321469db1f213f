"""The HTTP port as commands see it: what is refused, what breaks, and lines as they come."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from quiver.cli.http_source import HttpSource
from quiver.model.errors import ConnectionLost, InvalidRequest


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = {
            "/good": (200, b'{"a": 1}'),
            "/lines": (200, b'{"n": 1}\n{"n": 2}\n'),
            "/guarded": (
                403,
                b'{"error": "broker.example is not allowed; start it with --allowed-host", "code": "x"}',
            ),
            "/closed": (403, b"<html>"),
        }.get(self.path, (404, b"{}"))
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_documents_and_lines(url: str) -> None:
    source = HttpSource(url)
    assert source.get("/good").document() == {"a": 1}
    assert source.get("/missing").status == 404
    assert list(source.lines("/lines")) == [b'{"n": 1}\n', b'{"n": 2}\n']
    assert HttpSource(url.removeprefix("http://")).get("/good").status == 200


def test_a_refusal_is_an_error_with_the_sentence_of_the_broker(url: str) -> None:
    source = HttpSource(url)
    with pytest.raises(InvalidRequest, match="--allowed-host"):
        source.get("/guarded")
    with pytest.raises(InvalidRequest, match="status 403"):
        source.get("/closed")
    with pytest.raises(InvalidRequest, match="responded 404"):
        list(source.lines("/missing"))


def test_nobody_there_and_no_url() -> None:
    with pytest.raises(ConnectionLost, match="refused"):
        HttpSource("http://127.0.0.1:1").get("/good")
    for bad in ("https://localhost:7480", "http://", "http://host:port", "ftp://x:1"):
        with pytest.raises(InvalidRequest, match="is not the URL of a broker"):
            HttpSource(bad)
