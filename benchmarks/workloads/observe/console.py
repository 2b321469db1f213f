"""The console in a browser, in front of a broker with 1,000 topics: first paint, page changes, and ten tabs."""

import shutil
import time
from importlib.util import find_spec
from typing import Any

from benchmarks.percentiles import latency_metrics
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST
from benchmarks.workloads.observe.asking import broker_seconds, idle_share
from benchmarks.workloads.observe.metrics import TOPICS, fill_topics

TABS = 10
FULL_SECONDS = 20.0
PAGES = ("topics/topic-00000", "topics/topic-00000/messages", "groups", "dead-letters", "schedules", "", "topics")
"""The last one is where the browser begins: a page is never changed to itself."""
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_CHANGE = """async (place) => {
  const drawn = () => document.querySelector("main .content")?.childElementCount;
  const begin = performance.now();
  document.querySelector("main").replaceChildren();
  location.hash = "#/" + place;
  while (!drawn()) await new Promise(requestAnimationFrame);
  return performance.now() - begin;
}"""


def measure_console(run: Run) -> None:
    chromium = shutil.which("chromium")
    if chromium is None or find_spec("playwright") is None:
        run.skip("quiver console", "it needs playwright (scripts/setup dev) and chromium (scripts/system-packages)")
        return
    from playwright.sync_api import sync_playwright

    with Broker(run.scratch / "console") as broker, sync_playwright() as driver:
        fill_topics(broker, topics=run.scale.count(TOPICS) if run.scale.share < 1 else TOPICS)
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in run.repetitions():
            _pages(run, broker, browser)
            _tabs(run, broker, browser)
        browser.close()


def _pages(run: Run, broker: Broker, browser: Any) -> None:
    with run.measuring("quiver", "console", detail=f"{TOPICS} topics", server_pids=[broker.pid]) as metrics:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.goto(f"http://{HOST}:{broker.http_port}/console#/{PAGES[-1]}")
        page.wait_for_selector("main tbody tr")
        metrics["first_paint_ms"] = page.evaluate(_PAINTED)
        took = [page.evaluate(_CHANGE, place) / 1e3 for _ in range(3) for place in PAGES]
        metrics |= latency_metrics("page_change", took)
        context.close()


def _tabs(run: Run, broker: Broker, browser: Any) -> None:
    """Tabs of one browser share a stream; each page asks for what it shows by itself."""
    seconds = max(2.0, FULL_SECONDS * run.scale.share)
    idle = idle_share(broker, seconds / 2)
    with run.measuring("quiver", "console", detail=f"{TABS} tabs", server_pids=[broker.pid]) as metrics:
        context = browser.new_context()
        for number in range(TABS):
            context.new_page().goto(f"http://{HOST}:{broker.http_port}/console#/{PAGES[number % len(PAGES)]}")
        time.sleep(1)
        metrics["core_percent"] = 100 * broker_seconds(broker, lambda: time.sleep(seconds)) / seconds
        metrics["core_percent_idle"] = 100 * idle
        context.close()
