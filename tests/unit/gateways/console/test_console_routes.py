"""The files of the console: how they are served, and what none of them may contain."""

import re
from pathlib import Path

import httpx
import pytest

import quiver
from quiver.gateways.http.routes.console.assets import ConsoleAssets

FOLDER = Path(quiver.__file__).parent / "console"
MODULES = sorted(FOLDER.rglob("*.js"))
FORBIDDEN = {
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser": "text becomes nodes by textContent only",
    r"\beval\(|new Function\(": "no text is run",
    r"https?://(?!www\.w3\.org/2000/svg)": "nothing is loaded from elsewhere",
    r"setAttribute\(\"style\"|style: [\"`]": "the content policy allows no inline styles; set properties",
}
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


async def test_the_page_names_files_that_exist_and_allows_nothing_else(client: httpx.AsyncClient) -> None:
    page = await client.get("/console")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    named = re.findall(r'(?:src|href)="(console/[^"]+)"', page.text)
    assert len(named) > 10
    for path in named:
        file = await client.get(f"/{path}")
        assert file.status_code == 200, path
        assert file.headers["content-type"].startswith(TYPES[Path(path).suffix])
        assert file.headers["x-content-type-options"] == "nosniff"
        assert "immutable" in file.headers["cache-control"]
    assert not re.search(r"<script(?![^>]*src=)|<style| on\w+=| style=", page.text)


async def test_what_is_unchanged_is_not_sent_again(client: httpx.AsyncClient) -> None:
    page = await client.get("/console")
    assert page.headers["cache-control"] == "no-cache"
    again = await client.get("/console", headers={"if-none-match": f'"other", W/{page.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == page.headers["etag"]
    changed = await client.get("/console", headers={"if-none-match": '"other"'})
    assert changed.status_code == 200
    head = await client.head("/console")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "../../__main__.py",
        "..%2f..%2f__main__.py",
        "%2e%2e/%2e%2e/__main__.py",
        "lib/..%2fapp.js",
        "lib%2fdom.js",
        "/etc/passwd",
        "lib/",
        "",
        "index.html",
        "nothing.js",
    ],
)
async def test_no_path_leads_out_of_the_folder(client: httpx.AsyncClient, path: str) -> None:
    version = ConsoleAssets().version
    response = await client.get(httpx.URL(client.base_url, raw_path=f"/console/static/{version}/{path}".encode()))
    assert response.status_code == 404


async def test_files_of_another_version_are_not_mixed_in(client: httpx.AsyncClient) -> None:
    assert (await client.get("/console/static/0123456789abcdef/app.js")).status_code == 404


async def test_other_spellings_lead_to_the_console(client: httpx.AsyncClient) -> None:
    for path in ("/", "/console/", "/v1/console/"):
        response = await client.get(path, follow_redirects=True)
        assert response.status_code == 200
        assert response.url.path.removeprefix("/v1") == "/console"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_modules_are_short_and_safe(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("/**"), "a module begins with what it is"
    assert text.count("\n") < 200
    assert max(map(len, text.splitlines())) <= 200
    for pattern, reason in FORBIDDEN.items():
        assert not re.search(pattern, text), reason
    for imported in re.findall(r'from "(\.[^"\n]+)"', text):
        assert (path.parent / imported).resolve().is_file(), imported


def test_every_page_of_the_routes_exists() -> None:
    pages = re.findall(r'"([a-z-]+/[a-z-]+)",$', (FOLDER / "lib" / "routes.js").read_text(), re.MULTILINE)
    assert len(pages) >= 18
    assert all((FOLDER / f"{page}.js").is_file() for page in pages)
