"""The console in a browser, by what people see."""

from typing import Any

from playwright.sync_api import BrowserContext, Locator, expect

from blackbox.processes.broker_process import BrokerProcess


class ConsolePage:
    """`problems` are errors that the page wrote or threw, `elsewhere` requests to other hosts."""

    def __init__(self, context: BrowserContext, broker: BrokerProcess) -> None:
        self.context = context
        self.broker = broker
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        self.requests: list[str] = []
        self.tab = self.new_tab()

    def new_tab(self) -> Any:
        tab: Any = self.context.new_page()
        tab.on("pageerror", lambda error: self.problems.append(str(error)))
        tab.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        tab.on("dialog", lambda dialog: self.problems.append(f"a dialog of a script: {dialog.message}"))
        tab.on("request", lambda request: self._asked(request.url))
        return tab

    def open(self, place: str) -> "ConsolePage":
        """A page by its address after the #; returns when it is drawn."""
        self.tab.goto("about:blank")
        self.tab.goto(f"{self.broker.http}/console#/{place}")
        expect(self.tab.locator("main h1")).to_be_visible()
        return self

    @property
    def title(self) -> Locator:
        return self.tab.locator("main h1")

    @property
    def address(self) -> str:
        """What the address has after the #."""
        return str(self.tab.url).partition("#/")[2]

    @property
    def commands(self) -> Locator:
        return self.tab.locator("footer code")

    @property
    def dialog(self) -> Locator:
        return self.tab.get_by_role("dialog")

    def rows(self, within: str = "main") -> Locator:
        return self.tab.locator(f"{within} tbody tr:not(.spacer)")

    def button(self, name: str, exact: bool = False) -> Locator:
        return self.tab.locator("main").get_by_role("button", name=name, exact=exact)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tab.keyboard.press(key)

    def topic(self, name: str, *values: Any, partitions: int = 1, **settings: Any) -> str:
        """A topic with these values in it; a dict is a whole message."""
        self.broker.request("POST", "/topics", {"name": name, "partitions": partitions, **settings})
        messages = [value if isinstance(value, dict) else {"value": value} for value in values]
        if messages:
            status, found = self.broker.request("POST", f"/topics/{name}/messages", {"messages": messages})
            assert status == 200, found
            assert not [result for result in found["results"] if "error" in result], found
        return name

    def _asked(self, url: str) -> None:
        self.requests.append(url)
        if not url.startswith((self.broker.http, "about:", "blob:", "data:")):
            self.elsewhere.append(url)
