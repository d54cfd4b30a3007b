"""What tools hand over to people: types with schemas, more of them by registration, and a bound for what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from llmcore.errors import ConfigurationError, ToolError
from llmcore.tools.base import Artifact, ToolOutput
from llmcore.tools.builtin.artifacts import ArtifactTypes, payload, register_tool, site_artifacts, text
from llmcore.tools.registry import ToolRegistry, all_tools
from llmcore.tools.results import ToolResult, result_of

NOTE: dict[str, Any] = {"title": "VAT", "body": "# 2 %"}
FILE: dict[str, Any] = {"name": "orders.csv", "media_type": "text/csv", "content": "number\n"}


def emit(type: str, payload: dict[str, Any]) -> ToolOutput:
    output = all_tools()["emit_artifact"].run(type=type, payload=payload)
    assert isinstance(output, ToolOutput)
    return output


@pytest.mark.parametrize(("type", "given"), [("note", NOTE), ("file", FILE)])
def test_a_payload_of_its_type_is_handed_over(type: str, given: dict[str, Any]) -> None:  # K6
    output = emit(type, given)

    assert output.content == f"The {type} was handed over."
    assert output.artifacts == (Artifact(type=type, payload=given),)


@pytest.mark.parametrize(
    ("type", "given", "told"),
    [
        ("notes", NOTE, "no artifact type 'notes'. Types are: file, note."),
        ("x" * 100_000, NOTE, "Types are: file, note."),
        ("note", {}, "/payload/title: is required"),
        ("note", {"title": "VAT"}, "/payload/body: is required"),
        ("note", {**NOTE, "title": ""}, "/payload/title"),
        ("note", {**NOTE, "body": 7}, "/payload/body"),
        ("note", {**NOTE, "html": "<b>"}, "/payload"),
        ("file", NOTE, "/payload/name: is required"),
        ("file", {**FILE, "name": "../../etc/passwd"}, "/payload/name"),
        ("file", {**FILE, "name": "a\nb"}, "/payload/name"),
        ("file", {**FILE, "media_type": "text/html\r\nX-Evil: 1"}, "/payload/media_type"),
        ("file", {**FILE, "media_type": "html"}, "/payload/media_type"),
        ("file", {**FILE, "content": "x" * 500_001}, "/payload/content"),
    ],
)
def test_what_is_none_of_its_type_is_an_error_and_no_artifact(type: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolError) as raised:  # K6
        emit(type, given)
    assert told in str(raised.value) and len(str(raised.value)) < 5_000


def test_a_site_registers_more_types() -> None:  # K6
    types, registry = ArtifactTypes(), ToolRegistry()
    types.register("chart", "numbers to draw.", payload(labels={"type": "array"}, caption=text("One line.", 100)))
    tool = register_tool(registry, types)

    assert "chart: numbers to draw. Payload: labels, caption." in tool.description
    assert tool.parameters["properties"]["type"]["enum"] == ["chart"]  # type: ignore[index, call-overload]
    with pytest.raises(ToolError, match="/payload/labels"):
        types.artifact("chart", {"labels": "none", "caption": "x"})
    assert "chart" not in site_artifacts.all_types()


@pytest.mark.parametrize(
    ("name", "schema", "why"),
    [
        ("note", payload(), "two artifact types"),
        ("no name", payload(), "no name"),
        ("odd", {"type": "array"}, "odd"),
        ("odd", {"type": "object", "properties": {"a": {"type": "wrong"}}}, "odd"),
    ],
)
def test_a_type_that_can_not_be_is_refused_at_start(name: str, schema: dict[str, Any], why: str) -> None:
    types = ArtifactTypes()
    types.register("note", "a text.", payload())
    with pytest.raises(ConfigurationError, match=why):
        types.register(name, "Odd.", schema)


def test_what_is_kept_of_artifacts_is_bounded() -> None:
    small, huge = Artifact(type="note", payload=NOTE), Artifact(type="file", payload={"content": "x" * 20_000})
    result = result_of(ToolOutput(content="done", artifacts=(small, huge, small)))

    kept = result.bounded(max_bytes=1_000, max_traced_bytes=10_000).artifacts

    left_out = Artifact(type="left_out", payload={"artifacts": 2, "kept_bytes_at_most": 10_000})
    assert kept == (small, left_out)
    assert ToolResult(text="", artifacts=(small,)).bounded(max_bytes=9, max_traced_bytes=999).artifacts == (small,)
