"""The prompts of the demo site: lanes that turn a transcript of a tabletop session into records."""

from __future__ import annotations

from pathlib import Path

from demo.tabletop.registries import npc_names, spell_names
from llmcore.structured.inputs import JSON_TYPE, Input
from llmcore.structured.media import ANY_IMAGE
from llmcore.structured.packs import Entry, Tier, site_prompts

HERE = Path(__file__).resolve().parent / "tabletop"
CONFIGURATION = "tabletop-extraction"

pack = site_prompts.pack("tabletop", HERE / "pack")


def example(name: str) -> str:
    return (HERE / "examples" / name).read_text(encoding="utf-8").strip()


TRANSCRIPT = Input(name="transcript", example=example("transcript.txt"))
REFERENCES = Input(name="campaign_references", required=False, example=example("campaign-references.txt"))
NPCS = Input(
    name="npcs",
    label="NPC registry",
    media_type=JSON_TYPE,
    required=False,
    project=npc_names,
    example=example("npcs.json"),
)
SPELL_CATALOG = Input(name="spell_catalog", media_type=JSON_TYPE, project=spell_names, example=example("spells.json"))
PICTURE = Input(name="picture", label="Map or photo of the scene", media_type=ANY_IMAGE, required=False)
CANDIDATES = Input(name="candidates", media_type=JSON_TYPE, example=example("candidates.json"))
WINDOW = Input(name="window", label="Units around them", example=example("transcript.txt"))

SYSTEM = Entry("shared/system.md", Tier.UNIVERSAL, role="system")
EVIDENCE = Entry("shared/extraction-evidence.md", Tier.UNIVERSAL)
IDENTITY = Entry("shared/identity.md", Tier.UNIVERSAL)
CAMPAIGN = Entry("shared/campaign-references.md", Tier.RUN)
# Three lanes share it, so what they have in common is worth a boundary of its own.
REGISTRY = Entry("shared/npc-registry.md", Tier.LANE, boundary=True)
TAIL = Entry("shared/transcript.md", Tier.TAIL)


def lane(
    name: str,
    title: str,
    *own: Entry,
    before: tuple[Entry, ...],
    inputs: tuple[Input, ...] = (),
    tail: tuple[Entry, ...] = (TAIL,),
) -> None:
    """An extraction lane: what all share, what it has of its own, its task and instructions, and the transcript."""
    pack.schema(name, f"{name}/schema.json")
    pack.prompt(
        name,
        title=title,
        entries=(
            *before,
            *own,
            Entry(f"{name}/task.md", Tier.LANE),
            Entry(f"{name}/instructions.md", Tier.LANE),
            *tail,
        ),
        inputs=(REFERENCES, *inputs, TRANSCRIPT),
        schema=name,
        configuration=CONFIGURATION,
    )


EXTRACTION = (SYSTEM, EVIDENCE, IDENTITY, CAMPAIGN)

lane(
    "spells",
    "Spells",
    REGISTRY,
    Entry("spells/catalog.md", Tier.LANE),
    before=EXTRACTION,
    inputs=(NPCS, SPELL_CATALOG),
)
lane("npcs", "NPCs", before=EXTRACTION)
lane("combat_turns", "Combat turns", REGISTRY, before=EXTRACTION, inputs=(NPCS,))
lane("item_events", "Item events", before=EXTRACTION)
lane("npc_interactions", "NPC interactions", REGISTRY, before=EXTRACTION, inputs=(NPCS,))
# It is about the whole transcript and cites nothing of it.
lane(
    "scene_descriptions",
    "Scene description",
    before=(SYSTEM, IDENTITY, CAMPAIGN),
    inputs=(PICTURE,),
    tail=(Entry("scene_descriptions/picture.md", Tier.TAIL), TAIL),
)

pack.schema("scenes", "scenes/schema.json")
pack.prompt(
    "scenes",
    title="Scene chunker",
    entries=(
        Entry("scenes/system.md", Tier.UNIVERSAL, role="system", boundary=False),
        Entry("scenes/transcript.md", Tier.TAIL, boundary=True),
        Entry("shared/campaign-references.md", Tier.RUN, boundary=True),
        Entry("scenes/task.md", Tier.LANE),
        Entry("scenes/instructions.md", Tier.LANE, boundary=False),
    ),
    inputs=(TRANSCRIPT, REFERENCES),
    schema="scenes",
    configuration=CONFIGURATION,
    departs="A session is divided again after a change of the task, and then its transcript comes from the cache.",
)

pack.schema("npc_normalization", "npc_normalization/schema.json")
pack.prompt(
    "npc_normalization",
    title="NPC normalization",
    entries=(
        SYSTEM,
        Entry("npc_normalization/task.md", Tier.LANE),
        Entry("npc_normalization/instructions.md", Tier.LANE),
        Entry("npc_normalization/candidates.md", Tier.TAIL),
        Entry("npc_normalization/window.md", Tier.TAIL),
    ),
    inputs=(CANDIDATES, WINDOW),
    schema="npc_normalization",
    configuration=CONFIGURATION,
)
