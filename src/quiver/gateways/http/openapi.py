"""The OpenAPI 3.1 document, from the structs that requests are decoded into and answers encoded from."""

import re
from typing import Any

import msgspec

from quiver.gateways.http.operation import Operation, Routes
from quiver.model.errors import QuiverError

_PARAMETER = re.compile(r"\{(\w+)\}")
_FORMS = ("application/json", "application/msgpack")
_PATH_TYPES = {"partition": {"type": "integer", "minimum": 0}}


class ErrorAnswer(msgspec.Struct, kw_only=True):
    """Every error, on every route."""

    error: str
    code: str
    retryable: bool
    status: int


def openapi_document(routes: Routes, version: str) -> dict[str, Any]:
    operations = [operation for methods in routes.values() for operation in methods.values()]
    types = {kind for op in operations for kind in (op.body, op.answer, op.query) if kind is not None} | {ErrorAnswer}
    ordered = sorted(types, key=lambda kind: kind.__name__)
    refs, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    schemas = dict(zip(ordered, refs, strict=True))
    queries = {op.query for op in operations if op.query is not None}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Quiver",
            "version": version,
            "description": (
                "Every route also answers under /v1. Bodies are JSON or MessagePack, by Content-Type and Accept. "
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
        "responses": _responses(op, schemas),
    }
    if op.body is not None:
        content = _content(schemas[op.body])
        if op.example is not None:
            content["application/json"]["example"] = op.example
        described["requestBody"] = {"content": content, "required": False}
    return described


def _operation_id(path: str, method: str) -> str:
    words = re.findall(r"\w+", path.replace(".", "_"))
    return "_".join([method.lower(), *words])


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PATH_TYPES.get(name, {"type": "string"})}
        for name in _PARAMETER.findall(path)
    ]


def _query_parameters(op: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    if op.query is None:
        return []
    properties = components[op.query.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]


def _responses(op: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Done"}
    if op.answer is not None:
        good["content"] = _content(schemas[op.answer])
    statuses = sorted({op.status, op.other_status or op.status})
    responses = {str(status): good for status in statuses}
    for status, kinds in sorted(_by_status(op.errors).items()):
        responses[str(status)] = {
            "description": ", ".join(kind.code for kind in kinds),
            "content": _content(schemas[ErrorAnswer]),
        }
    return responses


def _by_status(errors: tuple[type[QuiverError], ...]) -> dict[int, list[type[QuiverError]]]:
    found: dict[int, list[type[QuiverError]]] = {}
    for kind in errors:
        found.setdefault(kind.status, []).append(kind)
    return found


def _content(schema: Any) -> dict[str, Any]:
    return {form: {"schema": schema} for form in _FORMS}
