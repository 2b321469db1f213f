"""An S3-compatible server, and a proxy in front of it that answers late, with errors, or not at all."""

import http.client
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

BUCKET = "lakes"
_OF_THIS_HOP = ("content-length", "expect", "transfer-encoding")
_LONGER_THAN_CLIENTS_WAIT = 4.0
"""Arrow's S3 client waits 3 s for a response."""
_ERROR = b"<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>"


class Fault(NamedTuple):
    """What happens to the first `times` requests with this method and this text in their path."""

    method: str
    part: str
    kind: str
    """error: refused; lost: done, and the connection breaks before the response; slow: late; late: done, and the
    client has given up when the response comes; call: after `do`."""
    times: int = 1
    do: Callable[[], None] = lambda: None


class ObjectStoreServer:
    """Moto's server, which has conditional puts, behind the proxy."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self._port = int(self._server.get_host_and_port()[1])
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._proxy.daemon_threads = True
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()
        self._lock = threading.Lock()
        self._faults: list[list[Any]] = []
        self.requests: list[tuple[str, str]] = []
        self.signed: set[str] = set()
        """What the bodies of uploads were signed with."""
        files = fs.S3FileSystem(**self._credentials(), endpoint_override=self.url, allow_bucket_creation=True)
        files.create_dir(BUCKET)
        self.files = files

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._proxy.server_address[1]}"

    def _credentials(self) -> dict[str, str]:
        return {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}

    def settings(self) -> dict[str, str]:
        """What users of such a server have in their environment."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
        }

    @contextmanager
    def faults(self, *faults: Fault) -> Iterator[None]:
        """Each of them must have happened when the block ends."""
        with self._lock:
            self._faults = [[fault, fault.times] for fault in faults]
            self.requests.clear()
        try:
            yield
        finally:
            with self._lock:
                left, self._faults = self._faults, []
        unused = [fault for fault, times in left if times == fault.times]
        assert not unused, unused

    def next_fault(self, method: str, path: str) -> Fault | None:
        with self._lock:
            self.requests.append((method, path))
            for entry in self._faults:
                fault, left = entry
                if left and fault.method == method and fault.part in path:
                    entry[1] -= 1
                    found: Fault = fault
                    return found
        return None

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def close(self) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()
        self._server.stop()


def _handler(server: ObjectStoreServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = b"".join(self._chunks())
            fault = server.next_fault(self.command, self.path)
            kind = fault.kind if fault else ""
            if kind == "error":
                self._respond(503, [("Content-Type", "application/xml")], _ERROR)
                return
            if kind == "slow":
                time.sleep(1.0)
            if fault and kind == "call":
                fault.do()
            if self.command == "PUT":
                server.signed.add(self.headers.get("x-amz-content-sha256", ""))
            kept = {name: value for name, value in self.headers.items() if name.lower() not in _OF_THIS_HOP}
            status, headers, content = server.forward(self.command, self.path, kept, body)
            if kind == "late":
                time.sleep(_LONGER_THAN_CLIENTS_WAIT)
            if kind == "lost":
                self.close_connection = True
                self.connection.close()
                return
            self._respond(status, headers, content)

        def _chunks(self) -> Iterator[bytes]:
            if self.headers.get("Transfer-Encoding") != "chunked":
                yield self.rfile.read(int(self.headers.get("Content-Length") or 0))
                return
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        def _respond(self, status: int, headers: Any, content: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            length = next((value for name, value in headers if name.lower() == "content-length"), str(len(content)))
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # the client has given up
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            return

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle

    return Handler


def use(server: ObjectStoreServer, patch: pytest.MonkeyPatch) -> None:
    """The environment of this process has what a user would have set."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(name)
    for name, value in server.settings().items():
        patch.setenv(name, value)
