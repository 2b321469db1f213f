"""The OpenAPI 3.1 document, from the structs that requests are decoded into and responses encoded from."""

import re
from typing import Any

import msgspec

from quiver.gateways.http.field_notes import NAME, take_needed
from quiver.gateways.http.operation import Operation, Routes
from quiver.model.errors import (
    CorruptData,
    DiskFull,
    ForeignOrigin,
    HostNotAllowed,
    InvalidRequest,
    Overloaded,
    PartitionOffline,
    QuiverError,
    RequestTooLarge,
    ShuttingDown,
    SlowClient,
    UnsupportedMediaType,
)

_PARAMETER = re.compile(r"\{(\w+)\}")
_FORMS = ("application/json", "application/msgpack")
_NUMBER = {"type": "integer", "minimum": 0}
_NAMED = {"type": "string", **NAME}
_PATH_TYPES = {
    **dict.fromkeys(("partition", "id", "producer"), _NUMBER),
    **dict.fromkeys(("topic", "group", "schedule"), _NAMED),
}
_EVERYWHERE = (QuiverError, HostNotAllowed, Overloaded, ShuttingDown)
"""Errors that any request may meet."""
_WITH_CHANGES = (ForeignOrigin, DiskFull, PartitionOffline, CorruptData)
_WITH_BODY = (InvalidRequest, RequestTooLarge, UnsupportedMediaType, SlowClient)


class ErrorResponse(msgspec.Struct, kw_only=True):
    """Every error, on every route."""

    error: str
    code: str
    retryable: bool
    status: int


def openapi_document(routes: Routes, version: str) -> dict[str, Any]:
    operations = [operation for methods in routes.values() for operation in methods.values()]
    types = {kind for op in operations for kind in (op.body, op.response, op.query) if kind is not None} | {
        ErrorResponse
    }
    ordered = sorted(types, key=lambda kind: kind.__name__)
    refs, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    for component in components.values():
        _list_needed(component)
    schemas = dict(zip(ordered, refs, strict=True))
    queries = {op.query for op in operations if op.query is not None}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Quiver",
            "version": version,
            "description": (
                "Every route is also served under /v1. Bodies are JSON or MessagePack, by Content-Type and Accept. "
                "In requests null means absent, unknown fields are ignored and an empty body is {}."
            ),
        },
        "paths": {
            path: {
                method.lower(): _operation(path, method, op, schemas, components) for method, op in methods.items()
            }
            for path, methods in routes.items()
        },
        "components": {
            "schemas": {
                name: schema
                for name, schema in components.items()
                if name not in {query.__name__ for query in queries}
            }
        },
    }


def _operation(
    path: str, method: str, op: Operation, schemas: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": op.summary,
        "tags": [op.tag],
        "operationId": _operation_id(path, method),
        "parameters": [*_path_parameters(path), *_query_parameters(op, components)],
        "responses": _responses(method, op, schemas),
    }
    if op.body is not None:
        content = _content(schemas[op.body])
        if op.example is not None:
            content["application/json"]["example"] = op.example
        is_needed = op.body_needed or bool(components[op.body.__name__].get("required"))
        described["requestBody"] = {"content": content, "required": is_needed}
    return described


def _list_needed(component: dict[str, Any]) -> None:
    """Fields without which a request is refused are required, though they may be left out in its struct."""
    found = [name for name, schema in component.get("properties", {}).items() if take_needed(schema)]
    if found:
        component["required"] = [*component.get("required", []), *found]


def _operation_id(path: str, method: str) -> str:
    words = re.findall(r"\w+", path.replace(".", "_"))
    return "_".join([method.lower(), *words, *(["slash"] if path[1:].endswith("/") else [])])


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PATH_TYPES.get(name, {"type": "string"})}
        for name in _PARAMETER.findall(path)
    ]


def _query_parameters(op: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    if op.query is None:
        return []
    component = components[op.query.__name__]
    required = component.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(schema)}
        for name, schema in component["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """There is no null in a query: what is absent is left out."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == len(schema.get("anyOf", [])):
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf" and (name, value) != ("default", None)}
    return {**rest, **kinds[0]} if len(kinds) == 1 else {**rest, "anyOf": kinds}


def _errors(method: str, op: Operation) -> tuple[type[QuiverError], ...]:
    found = [*op.errors, *_EVERYWHERE]
    if method != "GET":
        found += _WITH_CHANGES
    if op.body is not None:
        found += _WITH_BODY
    if op.query is not None:
        found.append(InvalidRequest)
    return tuple(dict.fromkeys(found))


def _responses(method: str, op: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Done"}
    if op.response is not None:
        schema = schemas[op.response]
        good["content"] = _content(schema) if op.form is None else {op.form: {"schema": schema}}
    statuses = sorted({op.status, op.other_status or op.status})
    responses = {str(status): good for status in statuses}
    for status, kinds in sorted(_by_status(_errors(method, op)).items()):
        responses[str(status)] = {
            "description": ", ".join(kind.code for kind in kinds),
            "content": _content(schemas[ErrorResponse]),
        }
    return responses


def _by_status(errors: tuple[type[QuiverError], ...]) -> dict[int, list[type[QuiverError]]]:
    found: dict[int, list[type[QuiverError]]] = {}
    for kind in errors:
        found.setdefault(kind.status, []).append(kind)
    return found


def _content(schema: Any) -> dict[str, Any]:
    return {form: {"schema": schema} for form in _FORMS}
