"""GET /node and /logs: the process, its machine, its settings, and what it logged last."""

import asyncio
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.times import format_time
from quiver.system.machine import file_system_of, open_file_use
from quiver.telemetry.logs import MAX_RECENT_LINES, LogLine, change_level, current_level, recent_lines

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class OpenFilesResponse(msgspec.Struct, kw_only=True):
    open: int
    limit: int


class DataDirectoryResponse(msgspec.Struct, kw_only=True):
    path: str
    file_system: Annotated[str, Meta(description="Such as ext4; empty when it is not known.")]
    mount_point: str
    total_bytes: int
    free_bytes: int


class NodeResponse(msgspec.Struct, kw_only=True):
    node_id: str
    time: Annotated[str, Meta(description="The broker's clock.")]
    pid: int
    version: str
    git_commit: str
    build_time: str
    started_at: str
    python: str
    platform: str
    processors: int
    open_files: OpenFilesResponse
    data_dir: Annotated[DataDirectoryResponse | None, Meta(description="null when the data is in memory.")]
    settings: Annotated[dict[str, Any], Meta(description="The configuration in force; secrets are masked.")]


class LogLineResponse(msgspec.Struct, kw_only=True):
    time: str
    level: str
    logger: str
    message: str
    traceback: str | UnsetType = UNSET


class LogsResponse(msgspec.Struct, kw_only=True):
    lines: Annotated[list[LogLineResponse], Meta(description="Oldest first.")]
    level: Annotated[str, Meta(description="The broker writes lines of this level and worse.")]


class LogsQuery(msgspec.Struct, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_RECENT_LINES)] = 200
    level: Annotated[str, Meta(pattern="^(debug|info|warning|error)$", description="This one and worse.")] = "debug"


class LogLevelRequest(msgspec.Struct, kw_only=True):
    level: Annotated[str, Meta(pattern="^(debug|info|warning|error)$", description="Until the broker stops.")]


class LogLevelResponse(msgspec.Struct, kw_only=True):
    level: str
    before: str


class ProcessRoutes:
    def __init__(self, broker: "Facade", node: NodeInfo, data_dir: Path | None) -> None:
        self._broker = broker
        self._node = node
        self._data_dir = data_dir

    async def node(self, request: Request) -> Response:
        node = self._node
        files = await asyncio.to_thread(open_file_use)
        return Response(
            NodeResponse(
                node_id=self._broker.node_id,
                time=format_time(self._broker.clock.now_ms()),
                pid=os.getpid(),
                version=node.version,
                git_commit=node.git_commit,
                build_time=node.build_time,
                started_at=format_time(node.started),
                python=platform.python_version(),
                platform=platform.platform(),
                processors=os.cpu_count() or 1,
                open_files=OpenFilesResponse(open=files.open, limit=files.limit),
                data_dir=await asyncio.to_thread(self._directory),
                settings=node.settings,
            )
        )

    def _directory(self) -> DataDirectoryResponse | None:
        if self._data_dir is None:
            return None
        found = file_system_of(self._data_dir)
        return DataDirectoryResponse(
            path=str(self._data_dir.resolve()),
            file_system=found.kind,
            mount_point=found.mount_point,
            total_bytes=found.total_bytes,
            free_bytes=found.free_bytes,
        )

    async def logs(self, request: Request) -> Response:
        query = request.query(LogsQuery)
        least = _LEVELS[query.level]
        lines = [line for line in recent_lines() if _LEVELS.get(line.level, least) >= least]
        return Response(LogsResponse(lines=[_line(line) for line in lines[-query.limit :]], level=current_level()))

    async def set_level(self, request: Request) -> Response:
        wanted = await request.body(LogLevelRequest)
        before = change_level(wanted.level)
        return Response(LogLevelResponse(level=wanted.level, before=before))


def _line(line: LogLine) -> LogLineResponse:
    return LogLineResponse(
        time=format_time(line.time_ms),
        level=line.level,
        logger=line.logger,
        message=line.message,
        traceback=line.traceback or UNSET,
    )


def process_routes(broker: "Facade", node: NodeInfo, data_dir: Path | None) -> Routes:
    routes = ProcessRoutes(broker, node, data_dir)
    return {
        "/node": {
            "GET": Operation(
                handler=routes.node,
                summary="The process, its machine and the settings in force",
                tag="Node",
                response=NodeResponse,
            )
        },
        "/logs": {
            "GET": Operation(
                handler=routes.logs,
                summary="The last log lines of the broker",
                tag="Node",
                query=LogsQuery,
                response=LogsResponse,
            )
        },
        "/logs/level": {
            "PUT": Operation(
                handler=routes.set_level,
                summary="Write log lines of this level and worse, until the broker stops",
                tag="Node",
                body=LogLevelRequest,
                example={"level": "debug"},
                response=LogLevelResponse,
            )
        },
    }
