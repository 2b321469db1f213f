"""Pictures of every page of the console, light and dark, at 1440 and 800 wide, with the data of `demo_data.py`.

python scripts/screenshots.py FOLDER        starts a broker, fills it, and writes FOLDER/<page>-<theme>-<width>.png
python scripts/screenshots.py --docs        writes those that the documents show, into docs/images
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import demo_data

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.servers.broker import Broker  # noqa: E402 - the root is no package that could be installed

MESSAGE = "topics/payments/messages/0/3"
PAGES = {
    "overview": "",
    "topics": "topics",
    "topic": "topics/orders",
    "messages": "topics/orders/messages",
    "search": "topics/orders/messages?where=value.total%20%3E%20300%20and%20value.state%20%3D%3D%20%22new%22",
    "tail": "topics/orders/messages?live=yes",
    "message": MESSAGE,
    "message-binary": "topics/inventory/messages/0/5",
    "message-large": "topics/images/messages/0/1",
    "message-hostile": "topics/images/messages/0/2",
    "settings": "topics/orders/settings",
    "publish": "publish?from=payments/0/3",
    "groups": "groups",
    "stream-group": "groups/warehouse",
    "queue-group": "groups/fraud-check",
    "dead-letters": "dead-letters",
    "topic-dead-letters": "topics/emails/dead-letters",
    "delayed": "delayed",
    "topic-delayed": "topics/emails/delayed",
    "schedules": "schedules",
    "transactions": "transactions",
    "traces": "traces",
    "cluster": "cluster",
    "system": "system",
    "missing": "topics/nothing",
}
DOCS = {
    "console-overview": ("overview", "light"),
    "console-search": ("search", "light"),
    "console-message": ("message", "dark"),
    "console-queue-group": ("queue-group", "light"),
    "console-topic-delayed": ("topic-delayed", "dark"),
}
WIDTHS = {1440: 900, 800: 900}
FILLED_SECONDS = 20


def take(browser: Any, address: str, wanted: list[tuple[str, str, int, Path]]) -> None:
    for page, theme, width, path in wanted:
        context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": WIDTHS[width]})
        tab = context.new_page()
        tab.on("pageerror", lambda error: print(f"an error of the page: {error}", file=sys.stderr))
        tab.goto(f"{address}/console#/{PAGES[page]}")
        tab.wait_for_timeout(2500 if page in ("tail", "search", "overview") else 1200)
        tab.screenshot(path=path)
        context.close()


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None or len(sys.argv) != 2:
        sys.exit(__doc__ if chromium else "chromium is not installed (scripts/system-packages)")
    if sys.argv[1] == "--docs":
        wanted = [(page, theme, 1440, ROOT / f"docs/images/{name}.png") for name, (page, theme) in DOCS.items()]
    else:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [
            (page, theme, width, folder / f"{page}-{theme}-{width}.png")
            for page in PAGES
            for theme in ("light", "dark")
            for width in WIDTHS
        ]
    with (
        tempfile.TemporaryDirectory() as scratch,
        Broker(Path(scratch) / "data") as broker,
        sync_playwright() as driver,
    ):
        demo_data.fill(broker.address)
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with demo_data.running(broker.address):
            time.sleep(FILLED_SECONDS)
            take(browser, f"http://127.0.0.1:{broker.http_port}", wanted)
        browser.close()


if __name__ == "__main__":
    main()
