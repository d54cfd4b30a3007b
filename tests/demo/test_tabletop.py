"""The sample pack: its lanes in their order, what they share, what is shown of registries, and its runs (J8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from demo.llm_prompts import NPCS, SPELL_CATALOG
from demo.runs import SPELLS
from demo.tabletop.registries import npc_names, spell_names
from llmcore.configuration import Parameters
from llmcore.errors import InvalidInput
from llmcore.providers.base import Transcript
from llmcore.providers.cache_marks import ENCODED_MARK
from llmcore.providers.registry import adapter_of, adapters
from llmcore.runs.fallback import call_to
from llmcore.runs.outcome import EndReason
from llmcore.structured.inputs import Material
from llmcore.structured.packs import Prompt, Tier, site_prompts
from llmcore.structured.rendering import Rendered, assemble_structured, render
from llmcore.trace import StepKind
from playground.services.start_run import RunRequest
from playground.structured_run import GivenInput, StructuredRun
from tests.demo.conftest import DemoRun
from tests.llmcore.prompt_packs import configuration_of

Run = Callable[[RunRequest], DemoRun]
LANES = ("spells", "npcs", "combat_turns", "item_events", "npc_interactions")
PACK = [prompt for prompt in site_prompts.prompts().values() if prompt.id.startswith("tabletop.")]
SHARED = ["shared/system.md", "shared/extraction-evidence.md", "shared/identity.md", "shared/campaign-references.md"]


def files_of(name: str) -> list[str]:
    return [entry.path.removeprefix("tabletop/") for entry in site_prompts.prompt(f"tabletop.{name}").entries]


def boundaries_of(name: str) -> list[str]:
    entries = site_prompts.prompt(f"tabletop.{name}").entries
    return [entry.path.removeprefix("tabletop/") for entry in entries if entry.boundary]


def rendered(name: str, **inputs: str) -> Rendered:
    prompt = site_prompts.prompt(f"tabletop.{name}")
    assert prompt.schema is not None
    examples = {given.name: given.example for given in prompt.inputs if given.required}
    given = {key: Material(data=text.encode()) for key, text in {**examples, **inputs}.items()}
    return render(prompt, prompt.schema, inputs=given, variables={})


def test_there_are_eight_lanes_each_with_a_schema_of_its_own() -> None:
    assert {prompt.id.partition(".")[2] for prompt in PACK} == {
        *LANES,
        "scenes",
        "scene_descriptions",
        "npc_normalization",
    }
    assert len({prompt.schema.sha256 for prompt in PACK if prompt.schema}) == 8
    assert len({prompt.fingerprint for prompt in PACK}) == 8


@pytest.mark.parametrize("name", LANES)
def test_extraction_lanes_begin_alike_and_end_with_the_transcript(name: str) -> None:
    files = files_of(name)

    assert files[:4] == SHARED and files[-1] == "shared/transcript.md"
    assert files[-3:-1] == [f"{name}/task.md", f"{name}/instructions.md"]
    registry = ["shared/npc-registry.md"] if name in ("spells", "combat_turns", "npc_interactions") else []
    assert files[4:-3] == registry + (["spells/catalog.md"] if name == "spells" else [])
    assert boundaries_of(name) == [*SHARED[2:], *registry, f"{name}/instructions.md"]


def test_other_lanes_have_their_own_order() -> None:
    assert files_of("scene_descriptions")[:3] == [
        "shared/system.md",
        "shared/identity.md",
        "shared/campaign-references.md",
    ]
    assert boundaries_of("scenes") == ["scenes/transcript.md", "shared/campaign-references.md"]
    assert site_prompts.prompt("tabletop.scenes").departs
    assert boundaries_of("npc_normalization") == ["shared/system.md", "npc_normalization/instructions.md"]
    tail = [
        entry.path for entry in site_prompts.prompt("tabletop.npc_normalization").entries if entry.tier is Tier.TAIL
    ]
    assert tail == ["tabletop/npc_normalization/candidates.md", "tabletop/npc_normalization/window.md"]


@pytest.mark.parametrize("prompt", PACK, ids=lambda prompt: prompt.id)
def test_schemas_say_what_an_answer_is_made_of_and_not_what_it_means(prompt: Prompt) -> None:
    def walk(schema: Any) -> None:
        assert not {"enum", "minimum", "minLength", "minItems"} & schema.keys()
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
            for inner in schema["properties"].values():
                walk(inner)
        elif "items" in schema:
            walk(schema["items"])

    assert prompt.schema is not None
    walk(prompt.schema.json)


def units_of(name: str, adapter: str = "anthropic") -> list[bytes]:
    """The messages of a request as they stand on the wire."""
    configuration = configuration_of(adapter)
    assembly = assemble_structured(rendered(name), configuration=configuration, instructed=False)
    (route,) = configuration.routes
    wire = adapter_of(route.provider, route.model)
    call = call_to(route, Parameters(), ())
    return list(Transcript(wire, call, assembly.messages).encoded())


@pytest.mark.parametrize("adapter", sorted(adapters()))
def test_lanes_read_from_the_cache_what_they_have_in_common(adapter: str) -> None:
    for name in LANES:
        assert units_of(name, adapter)[:4] == units_of("spells", adapter)[:4]
    for name in ("combat_turns", "npc_interactions"):
        assert units_of(name, adapter)[:5] == units_of("spells", adapter)[:5] != units_of(name, adapter)[:4]


def test_the_transcript_is_no_boundary_and_no_prompt_has_more_than_a_provider_takes() -> None:
    for prompt in PACK:
        marks = [ENCODED_MARK in unit for unit in units_of(prompt.id.partition(".")[2])]
        assert marks == [entry.boundary for entry in prompt.entries] and sum(marks) <= 4


# Registries


def test_of_a_registry_the_prompt_shows_names_only() -> None:
    shown = npc_names(NPCS.example.encode())

    assert shown.data == b'{"npcs":["Old Wick","Tessaly Bromm"]}'
    assert shown.provenance["count"] == 2 and len(str(shown.provenance["sha256"])) == 64
    assert spell_names(SPELL_CATALOG.example.encode()).data == (
        b'{"spell_names":["Glimmerbind","Lantern of Salt","Undertow"]}'
    )


def test_without_a_registry_there_are_exactly_no_names() -> None:
    assert npc_names(None).data == b'{"npcs":[]}'
    for name in ("spells", "combat_turns", "npc_interactions"):
        (shown,) = [shown for shown in rendered(name).inputs if shown.input.name == "npcs"]
        assert (shown.data, shown.given, dict(shown.provenance)) == (b'{"npcs":[]}', False, {})


def test_the_whole_registry_goes_to_the_manifest_by_digest_and_count() -> None:
    (entry,) = [
        item for item in rendered("combat_turns", npcs=NPCS.example).manifest()["inputs"] if item["name"] == "npcs"
    ]

    assert entry["provenance"]["count"] == 2
    assert "Tessaly" not in json.dumps(entry) and "npc-0004" not in json.dumps(entry)


def test_what_is_not_shown_of_a_registry_changes_its_digest_and_no_key() -> None:
    other = NPCS.example.replace("the ferryman", "the boatman")
    one, two = rendered("npc_interactions", npcs=NPCS.example), rendered("npc_interactions", npcs=other)

    assert one.checkpoint_key == two.checkpoint_key
    assert one.manifest()["inputs"] != two.manifest()["inputs"]


@pytest.mark.parametrize(
    ("registry", "said"),
    [
        ("[]", "it has to be"),
        ('{"npcs": [], "more": 1}', "it has to be"),
        ('{"npcs": [{"id": "1"}]}', "/npcs/0/name has to be a text"),
        ('{"npcs": [1]}', "/npcs/0 is no object"),
        ('{"npcs": [{"id": "1", "name": "A", "secret": 1}]}', "unknown member 'secret'"),
        ('{"npcs": [{"id": "1", "name": "A"}, {"id": "1", "name": "B"}]}', "the same id"),
        ('{"npcs": [{"id": "1", "name": "A"}, {"id": "2", "name": "a"}]}', "the same name"),
        ('{"npcs": [], "npcs": []}', "stands twice"),
    ],
)
def test_a_registry_is_read_strictly(registry: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        rendered("spells", npcs=registry)


# Runs


def test_the_spells_are_right_at_the_second_attempt(run_demo: Run) -> None:
    run = run_demo(SPELLS)

    assert run.end.outcome is not None and run.end.outcome.reason is EndReason.COMPLETED
    first, second = (step.data for step in run.steps(StepKind.VALIDATION))
    assert not first["valid"] and second["valid"] and run.end.state.repairs_used == 1
    pointers = {objection["pointer"] for objection in run.trace.contents[first["objections"]]}
    assert pointers == {"/castings/0/as_spoken", "/castings/0/damage", "/castings/0/targets"}
    assert not run.prepared.gate.offered
    assert run.prepared.plan()["structured"]["prompt"] == "tabletop.spells"


@pytest.mark.parametrize("prompt", [prompt for prompt in PACK if prompt.id != "tabletop.spells"], ids=lambda p: p.id)
def test_every_lane_can_be_run_with_its_examples(prompt: Prompt, run_demo: Run) -> None:
    inputs = tuple(GivenInput(name=given.name, text=given.example) for given in prompt.inputs)
    structured = StructuredRun(prompt=prompt.id, inputs=inputs)

    run = run_demo(RunRequest(configuration=prompt.configuration, prompt="", structured=structured))

    assert run.end.outcome is not None and run.end.outcome.reason is EndReason.COMPLETED
    assert [step.data["valid"] for step in run.steps(StepKind.VALIDATION)] == [True]
