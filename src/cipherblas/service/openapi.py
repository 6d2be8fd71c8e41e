"""The routes of a service as an OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

REFUSALS = (400, 401, 403, 404, 408, 409, 413, 422, 423, 429, 460, 503, 507)


@dataclass(frozen=True)
class Endpoint:
    """One route.

    Attributes:
        handler: what answers it.
        scopes: of which a token needs one, separated by spaces; none: for everybody.
        summary: a sentence.
        statuses: of its answers that are no refusals.
        fields: that the JSON of its body must have.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    scopes: str
    summary: str
    statuses: tuple[int, ...]
    fields: tuple[str, ...] = ()


def document(calls: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of routes."""
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        described: dict[str, Any] = {
            "summary": call.summary,
            "operationId": f"{call.handler.__name__}",
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"{(\w+)}", call.path)
            ],
            "responses": {
                **{str(status): {"description": "Done."} for status in call.statuses},
                **{
                    str(status): {"description": "Refused.", "content": {"application/problem+json": {}}}
                    for status in REFUSALS
                },
            },
        }
        if call.scopes:
            described["security"] = [{"token": call.scopes.split()}]
        if call.fields:
            fields = {name: {"type": "object" if name == "operands" else "string"} for name in call.fields}
            body = {"type": "object", "required": list(fields), "properties": fields}
            described["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        paths.setdefault(call.path, {})[call.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "cipherblas", "version": "1"},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }
