"""A browser that looks at the console of a running broker."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from blackbox.console.console_page import ConsolePage
from blackbox.processes.broker_process import BrokerProcess

CHROMIUM = shutil.which("chromium")

expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def console(browser: Browser, shared_broker: BrokerProcess) -> Iterator[ConsolePage]:
    """A page of the console; a test fails when it asked another host for anything or wrote an error."""
    context: Any = browser.new_context(viewport={"width": 1440, "height": 900})
    page = ConsolePage(context, shared_broker)
    yield page
    context.close()
    assert page.elsewhere == []
    assert page.problems == []
