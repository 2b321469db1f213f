"""docs/http.md lists every route."""

import re
from pathlib import Path

from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.routes import all_routes
from quiver.gateways.http.routes.node.health import Readiness
from unit.gateways.fake_broker import FakeBroker

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text()


def test_every_route_is_documented(broker: FakeBroker, readiness: Readiness) -> None:
    routes = all_routes(broker, NodeInfo(version="1.2.3"), readiness)
    expected = {
        (method, path, operation.summary)
        for path, operations in routes.items()
        for method, operation in operations.items()
    }
    documented = re.findall(r"^\| `(\w+) (/\S*)` \| (.*) \|$", PAGE.partition("## All routes")[2], re.MULTILINE)
    assert set(documented) == expected
    assert documented == sorted(documented, key=lambda row: row[1])
