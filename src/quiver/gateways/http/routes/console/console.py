"""GET /console and its files."""

from collections.abc import Sequence

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.console.assets import ConsoleAssets
from quiver.model.errors import RouteNotFound

_POLICY = (
    # Only the broker's own files are loaded and only the broker is asked; text can never become a script or markup,
    # because the browser refuses every place where it could (require-trusted-types-for, with no policy allowed).
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_SAFETY = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_REVALIDATED = b"no-cache"
_KEPT = b"public, max-age=31536000, immutable"
_TO_CONSOLE = b"/console"
_TAG = "Documents"


class ConsoleRoutes:
    """The page is asked for each time and mostly unchanged; its files have the version in their path and are kept."""

    def __init__(self) -> None:
        self._assets = ConsoleAssets()

    async def page(self, request: Request) -> Response:
        tag = f'"{self._assets.version}"'.encode()
        headers = [*_SAFETY, (b"etag", tag), (b"cache-control", _REVALIDATED)]
        return _document(request, self._assets.page, b"text/html; charset=utf-8", headers)

    async def with_slash(self, request: Request) -> Response:
        return Response(b"", 307, content_type=b"text/plain", headers=[(b"location", b"../console")])

    async def root(self, request: Request) -> Response:
        return Response(b"", 307, content_type=b"text/plain", headers=[(b"location", _TO_CONSOLE)])

    async def file(self, request: Request) -> Response:
        params = request.params
        path = "/".join(params[name] for name in ("folder", "file") if name in params)
        asset = self._assets.files.get(path)
        if asset is None or params["version"] != self._assets.version:
            raise RouteNotFound(method=request.method, path=request.path[:200])
        tag = f'"{self._assets.version}"'.encode()
        headers = [*_SAFETY, (b"etag", tag), (b"cache-control", _KEPT)]
        return _document(request, asset.content, asset.content_type, headers)


def _document(
    request: Request, content: bytes, content_type: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> Response:
    tag = dict(headers)[b"etag"]
    known = [each.strip().removeprefix(b"W/") for each in request.headers.get(b"if-none-match", b"").split(b",")]
    if tag in known or b"*" in known:
        return Response(b"", 304, content_type=content_type, headers=headers)
    return Response(content, content_type=content_type, headers=headers)


def console_routes() -> Routes:
    routes = ConsoleRoutes()
    file = Operation(
        handler=routes.file, summary="A file of the console", tag=_TAG, response=None, errors=(RouteNotFound,)
    )
    return {
        "/": {
            "GET": Operation(handler=routes.root, summary="Leads to /console", tag=_TAG, response=None, status=307)
        },
        "/console": {
            "GET": Operation(handler=routes.page, summary="The console, for a browser", tag=_TAG, response=None)
        },
        "/console/": {
            "GET": Operation(
                handler=routes.with_slash, summary="Leads to /console", tag=_TAG, response=None, status=307
            )
        },
        "/console/static/{version}/{file}": {"GET": file},
        "/console/static/{version}/{folder}/{file}": {"GET": file},
    }
