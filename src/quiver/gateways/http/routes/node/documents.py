"""The OpenAPI document and the page that shows it."""

from functools import cached_property
from importlib.resources import files

import msgspec

from quiver.gateways.http.openapi import openapi_document
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response

_PAGE_HEADERS = (
    # Nothing may be loaded from elsewhere: the page works without the internet, and stays that way.
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-cache"),
)


class DocumentRoutes:
    """Built when they are first asked for, from the routes of the other parts and their own."""

    def __init__(self, routes: Routes, version: str) -> None:
        self.routes: Routes = {
            **routes,
            "/openapi.json": {
                "GET": Operation(
                    handler=self.openapi, summary="This interface as OpenAPI 3.1", tag="Documents", response=None
                )
            },
            "/docs": {
                "GET": Operation(
                    handler=self.docs, summary="A page to read and try this interface", tag="Documents", response=None
                )
            },
        }
        self._version = version

    async def openapi(self, request: Request) -> Response:
        return Response(self._document, content_type=b"application/json")

    async def docs(self, request: Request) -> Response:
        return Response(self._page, content_type=b"text/html; charset=utf-8", headers=_PAGE_HEADERS)

    @cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(openapi_document(self.routes, self._version))

    @cached_property
    def _page(self) -> bytes:
        return files("quiver.gateways.http").joinpath("docs.html").read_bytes()
