"""Requests that no client of this package sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cipherblas as cb
from tests.service.test_threats import refused
from tests.support.served import Served

HALF = "\ud800"  # of a surrogate pair: JSON writes it, UTF-8 and SQLite do not


@pytest.mark.parametrize("metadata", ["sha256 \xe9", "sha256 =", "sha256 /w==", "\xe9", ",", "name YQ=="])
def test_metadata_that_is_no_text(service: Served, metadata: str) -> None:
    there = service.connect(f"metadata {metadata!r}")
    fields = {"Upload-Length": "10", "Upload-Metadata": metadata}
    refused(400, there.ask, "POST", "/v1/uploads", b"", fields, again=False)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/programs", {"object": HALF}),
        ("/v1/programs", {"object": "0" * 64, "name": HALF}),
        ("/v1/jobs", {"program": HALF, "keys": "a", "operands": {}}),
        ("/v1/jobs", {"program": "a", "keys": HALF, "operands": {}}),
        ("/v1/jobs", {"program": "a", "keys": "b", "operands": {HALF: "c"}}),
        ("/v1/jobs", {"program": "a", "keys": "b", "operands": {"x": HALF}}),
    ],
)
def test_bodies_that_are_no_text(service: Served, path: str, fields: Any) -> None:
    there = service.connect(f"text {path} {json.dumps(fields)}")
    error = refused(400, there.ask, "POST", path, json.dumps(fields).encode(), again=False)
    assert "Unicode" in str(error)


def test_bodies_that_are_too_deep(service: Served) -> None:
    there = service.connect("deep")
    refused(400, there.ask, "POST", "/v1/jobs", b"[" * 100_000, again=False)
    with pytest.raises(cb.ServiceError, match="other fields"):
        there.ask("POST", "/v1/jobs", b"[]", again=False)
