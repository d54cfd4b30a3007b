"""Brings the demo into a site: the shop's rows, and a provider, models, configurations, skills and snippets."""

from __future__ import annotations

import shutil
from pathlib import Path

from django.db import transaction

from demo.configurations import (
    CONFIGURATIONS,
    MODELS,
    PRESETS,
    PROVIDER_SLUG,
    DemoConfiguration,
    DemoModel,
    DemoPreset,
)
from demo.documents import CONTENT, Document, documents
from demo.models import LoadedItem, Product
from demo.shop import create_shop
from llmcore.models import (
    Configuration,
    ConfigurationSkill,
    ConfigurationSnippet,
    LanguageModel,
    Provider,
    Skill,
    Snippet,
    ToolPreset,
)
from llmcore.workspaces import workspace_named


@transaction.atomic
def load_demo(*, demo_model_url: str) -> list[str]:
    """Create what was never created before, and say what that was.

    What people changed or deleted since is left as it is. Only the provider's address follows the demo model to
    another port, as long as it is the one that was written here.
    """
    loaded = LoadedItem.objects.in_bulk(field_name="key")
    new = [key for key in demo_keys() if key not in loaded]
    LoadedItem.objects.bulk_create(LoadedItem(key=key) for key in new)
    if "shop" in new and not Product.objects.exists():
        create_shop()
    point_provider_at(demo_model_url, is_new=f"provider:{PROVIDER_SLUG}" in new)
    for skill in documents("skills").values():
        if f"skill:{skill.slug}" in new:
            load_skill(skill)
    for snippet in documents("snippets").values():
        if f"snippet:{snippet.slug}" in new:
            load_snippet(snippet)
    if "workspace" in new:
        copy_workspace()
    for preset in PRESETS:
        if f"preset:{preset.slug}" in new:
            load_preset(preset)
    for model in MODELS:
        if f"model:{model.name}" in new:
            load_model(model)
    for configuration in CONFIGURATIONS:
        if f"configuration:{configuration.slug}" in new:
            load_configuration(configuration)
    return new


def demo_keys() -> list[str]:
    return [
        "shop",
        f"provider:{PROVIDER_SLUG}",
        *(f"skill:{slug}" for slug in documents("skills")),
        *(f"snippet:{slug}" for slug in documents("snippets")),
        "workspace",
        *(f"preset:{preset.slug}" for preset in PRESETS),
        *(f"model:{model.name}" for model in MODELS),
        *(f"configuration:{configuration.slug}" for configuration in CONFIGURATIONS),
    ]


def point_provider_at(url: str, *, is_new: bool) -> None:
    written = LoadedItem.objects.get(key=f"provider:{PROVIDER_SLUG}")
    if is_new:
        Provider.objects.get_or_create(
            slug=PROVIDER_SLUG,
            defaults={
                "name": "Demo model",
                "adapter": "openai_compat",
                "base_url": url,
                "allow_private_hosts": True,
            },
        )
    elif url != written.value:
        Provider.objects.filter(slug=PROVIDER_SLUG, base_url=written.value).update(base_url=url)
    written.value = url
    written.save(update_fields=["value"])


def load_skill(document: Document) -> None:
    skill = Skill(
        slug=document.slug,
        name=document.name,
        description=document.front.get("description", ""),
        body=document.body,
        allowed_tools=document.words("allowed-tools") or None,
        trust=Skill.Trust.REVIEWED,
    )
    skill.seal()
    if not Skill.objects.filter(slug=skill.slug).exists():
        skill.save()


def load_snippet(document: Document) -> None:
    Snippet.objects.get_or_create(
        slug=document.slug,
        defaults={"name": document.name, "body": document.body, "tags": document.words("tags")},
    )


def copy_workspace() -> None:
    """The shop's files as a folder of their own, so that what models write changes no file of this project."""
    workspace = workspace_named("shop")
    if workspace is not None and not Path(workspace.root).exists():
        shutil.copytree(CONTENT / "workspace", workspace.root, dirs_exist_ok=True)


def load_preset(preset: DemoPreset) -> None:
    ToolPreset.objects.get_or_create(
        slug=preset.slug,
        defaults={"name": preset.name, "description": preset.description, "tools": list(preset.tools)},
    )


def load_model(model: DemoModel) -> None:
    provider = Provider.objects.filter(slug=PROVIDER_SLUG).first()
    if provider is not None:
        LanguageModel.objects.get_or_create(provider=provider, name=model.name, defaults=model.fields())


def load_configuration(plan: DemoConfiguration) -> None:
    model = LanguageModel.objects.filter(provider__slug=PROVIDER_SLUG, name=plan.model).first()
    if model is None or Configuration.objects.filter(slug=plan.slug).exists():
        return
    configuration = Configuration(
        slug=plan.slug,
        name=plan.name,
        description=plan.description,
        model=model,
        system_prompt=documents("prompts")[plan.prompt].body.strip(),
        tool_groups=list(plan.tool_groups),
        tool_preset=ToolPreset.objects.filter(slug=plan.preset).first(),
        summarizer=Configuration.objects.filter(slug=plan.summarizer).first(),
        **plan.more,
    )
    configuration.save(keep_version=False)
    skills = Skill.objects.in_bulk(plan.skills, field_name="slug")
    ConfigurationSkill.objects.bulk_create(
        ConfigurationSkill(configuration=configuration, skill=skills[slug], position=position)
        for position, slug in enumerate(plan.skills)
        if slug in skills
    )
    snippets = Snippet.objects.in_bulk(plan.snippets, field_name="slug")
    ConfigurationSnippet.objects.bulk_create(
        ConfigurationSnippet(configuration=configuration, snippet=snippets[slug], position=position)
        for position, slug in enumerate(plan.snippets)
        if slug in snippets
    )
    # Once it is complete, so that it begins at version 1.
    configuration.keep_version()
