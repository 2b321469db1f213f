"""The broker's HTTP interface, for commands that show what is only there: health, the process, rates, metrics."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer

from quiver.model.errors import ConnectionLost, InvalidRequest, error_from_wire

if TYPE_CHECKING:
    from quiver.client import Client

HTTP_VARIABLE = "QUIVER_HTTP"
_SECONDS = 30.0
_DEFAULT_PORT = 7480
_REFUSED = (401, 403)

HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        envvar=HTTP_VARIABLE,
        metavar="URL",
        help="The broker's HTTP port, such as http://broker:7480, where it differs from what the native port says.",
    ),
]


class HttpResponse(NamedTuple):
    status: int
    body: bytes

    def document(self) -> Any:
        return json.loads(self.body)


class HttpSource:
    """Requests to one broker. Raises ConnectionLost when it does not respond."""

    def __init__(self, url: str, *, timeout: float = _SECONDS) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port or _DEFAULT_PORT
        except ValueError:
            port = 0
        if parts.scheme != "http" or not parts.hostname or not port:
            raise InvalidRequest(
                problem=f"{url!r} is not the URL of a broker, such as http://localhost:{_DEFAULT_PORT}"
            )
        self._host, self._port, self._timeout = parts.hostname, port, timeout
        self.url = f"http://{parts.netloc}"

    def get(self, path: str, *, accept: str = "application/json") -> HttpResponse:
        """Raises InvalidRequest with the broker's sentence when it refuses the caller."""
        with self._request(path, accept) as response:
            found = HttpResponse(response.status, response.read())
        if found.status in _REFUSED:
            raise InvalidRequest(problem=f"{self.url} refused the request: {_sentence(found)}")
        return found

    def change(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The document of a request that changes something; raises the error that the broker returns."""
        with self._request(path, "application/json", method, body) as response:
            found = HttpResponse(response.status, response.read())
        document = found.document()
        if found.status >= http.client.BAD_REQUEST:
            raise error_from_wire(document["code"], document["error"], document["retryable"])
        return document

    def lines(self, path: str) -> Iterator[bytes]:
        """The lines of a response as they come, until the broker ends it."""
        with self._request(path, "application/x-ndjson") as response:
            if response.status != http.client.OK:
                raise InvalidRequest(problem=f"{self.url}{path} responded {response.status}")
            yield from response

    @contextmanager
    def _request(
        self, path: str, accept: str, method: str = "GET", body: dict[str, Any] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        try:
            data = None if body is None else json.dumps(body)
            kind = {} if data is None else {"content-type": "application/json"}
            connection.request(method, path, data, headers={"accept": accept} | kind)
            with connection.getresponse() as response:
                yield response
        except (OSError, http.client.HTTPException) as error:
            problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ConnectionLost(address=self.url, problem=problem) from None
        finally:
            connection.close()


def _sentence(response: HttpResponse) -> str:
    try:
        return str(response.document()["error"])
    except (ValueError, LookupError, TypeError):
        return f"status {response.status}"


def http_source(q: "Client", given: str | None) -> HttpSource:
    """The HTTP port of the broker that a client is connected to, or the one that the user named."""
    url = given or q.http_url()
    if url is None:
        raise InvalidRequest(
            problem=f"the broker at {q.address} has no HTTP port, or is just starting; name it: --http URL"
        )
    return HttpSource(url)
