"""Versions at use: what a run uses is kept before it runs, and a later run can be made of the same versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Q

from llmcore import configuration as values
from llmcore import store
from llmcore.errors import ConfigurationError
from llmcore.models import Configuration, LanguageModel, PromptVersion, Skill, Snippet, ToolPreset, Versioned

KINDS: dict[str, type[Versioned]] = {model.version_kind: model for model in (Configuration, Skill, Snippet)}
# They stand for other rows by name, and are not columns of their own.
_NAMED = {"model", "tool_preset", "summarizer", "skills", "snippets"}

Piece = TypeVar("Piece", bound=Versioned)


@dataclass(frozen=True, order=True, slots=True)
class VersionRef:
    """Names one version: of what kind and row, and which."""

    kind: str
    object_id: int
    number: int


@dataclass(frozen=True, slots=True)
class Kept:
    """The rows of what a run uses: the configuration with all that it attaches, as `load_configuration` takes it, and
    the forced texts that there are."""

    configuration: Configuration
    skills: tuple[Skill, ...]
    snippets: tuple[Snippet, ...]


def keep_versions(*, configuration: str, skills: Sequence[str] = (), snippets: Sequence[str] = ()) -> Kept | None:
    """Keep what these (slugs) say now, as far as no save did: queries, fixtures and scripts change rows without one.

    To be called before a run reads them; nothing where there is no such configuration. Other unknown names are left to
    whoever reads them.
    """
    rows = Configuration.objects.select_related("model__provider", "tool_preset", "summarizer").prefetch_related(
        "configurationskill_set", "configurationsnippet_set", "configurationfallback_set"
    )
    row = rows.filter(slug=configuration).first()
    if row is None:
        return None
    forced_skills = tuple(Skill.objects.filter(slug__in=skills)) if skills else ()
    forced_snippets = tuple(Snippet.objects.filter(slug__in=snippets)) if snippets else ()
    pieces: list[Versioned] = [
        row,
        *(entry.skill for entry in row.configurationskill_set.all()),
        *(entry.snippet for entry in row.configurationsnippet_set.all()),
        *row.tagged_snippets(),
        *forced_skills,
        *forced_snippets,
    ]
    # Most runs find everything kept: one look tells.
    kept: defaultdict[tuple[str, int], list[PromptVersion]] = defaultdict(list)
    for version in PromptVersion.objects.filter(_from_now_on(pieces)):
        kept[version.kind, version.object_id].append(version)
    for piece in pieces:
        if not piece.kept_as(kept[piece.version_kind, piece.pk]):
            piece.keep_version()
    return Kept(row, forced_skills, forced_snippets)


def _from_now_on(pieces: Iterable[Versioned]) -> Q:
    """The versions of `pieces` from the numbers on that the rows have."""
    wanted = Q(pk__in=())
    for piece in pieces:
        wanted |= Q(kind=piece.version_kind, object_id=piece.pk, number__gte=piece.version)
    return wanted


def versions_of(
    configuration: values.Configuration, skills: Iterable[values.Skill], snippets: Iterable[values.Snippet]
) -> tuple[VersionRef, ...]:
    """The versions that a run of `configuration` with these forced `skills` and `snippets` is made of."""
    refs = {VersionRef("configuration", configuration.id or 0, configuration.version)}
    refs |= {VersionRef("skill", item.id or 0, item.version) for item in (*configuration.skills, *skills)}
    texts = (*configuration.snippets, *configuration.tagged_snippets, *snippets)
    refs |= {VersionRef("snippet", item.id or 0, item.version) for item in texts}
    return tuple(sorted(ref for ref in refs if ref.object_id))


class Then:
    """The rows as they were in some versions, to make a run of. Nothing of it is stored again.

    Provider, model and tool preset are named by a version and used as they are now. ConfigurationError says what can
    no longer be had.
    """

    def __init__(self, refs: Iterable[VersionRef]) -> None:
        self._by_slug: dict[tuple[str, str], PromptVersion] = {}
        for ref in refs:
            version = PromptVersion.objects.filter(**_fields_of(ref)).first()
            if version is None:
                raise ConfigurationError(
                    f"Version {ref.number} of {ref.kind} {ref.object_id} was not kept: run with today's versions."
                )
            self._by_slug[ref.kind, version.fields["slug"]] = version

    def configuration(self, slug: str, *, read_keys: bool) -> values.Configuration:
        version = self._version("configuration", slug)
        row = _row(Configuration, version)
        row.enabled = True
        row.model = _model(version.fields["model"])
        row.tool_preset = ToolPreset.objects.filter(slug=version.fields["tool_preset"]).first()
        row.summarizer = _summarizer(version.fields.get("summarizer"))
        return store.configuration_value(
            row,
            [_row(Skill, self._version("skill", slug)) for slug in version.fields["skills"]],
            [_row(Snippet, self._version("snippet", slug)) for slug in version.fields["snippets"]],
            self._tagged(version.fields.get("snippet_tags", ())),
            _fallbacks(version.fields.get("fallbacks", ())),
            read_keys=read_keys,
        )

    def skills(self, slugs: Sequence[str]) -> tuple[values.Skill, ...]:
        """As then where it is one of the versions, else as now."""
        return tuple(
            store.skill_value(_row(Skill, self._by_slug["skill", slug]))
            if ("skill", slug) in self._by_slug
            else store.load_skills([slug])[0]
            for slug in slugs
        )

    def snippets(self, slugs: Sequence[str]) -> tuple[values.Snippet, ...]:
        return tuple(
            store.snippet_value(_row(Snippet, self._by_slug["snippet", slug]))
            if ("snippet", slug) in self._by_slug
            else store.load_snippets([slug])[0]
            for slug in slugs
        )

    def _tagged(self, tags: Iterable[str]) -> list[Snippet]:
        """The snippets that these tags brought then, by slug."""
        wanted = set(tags)
        found = [(slug, version) for (kind, slug), version in self._by_slug.items() if kind == "snippet"]
        return [_row(Snippet, version) for _slug, version in sorted(found) if wanted & set(version.fields["tags"])]

    def _version(self, kind: str, slug: str) -> PromptVersion:
        try:
            return self._by_slug[kind, slug]
        except KeyError:
            raise ConfigurationError(f"The run doesn't say which version of {kind} “{slug}” it used.") from None


def _fields_of(ref: VersionRef) -> dict[str, Any]:
    return {"kind": ref.kind, "object_id": ref.object_id, "number": ref.number}


def _row(model: type[Piece], version: PromptVersion) -> Piece:
    columns = {field.name for field in model._meta.concrete_fields} - _NAMED
    fields = {name: value for name, value in version.fields.items() if name in columns}
    return model(pk=version.object_id, version=version.number, **fields)


def _summarizer(slug: str | None) -> Configuration | None:
    """As it is now, where it still is there."""
    rows = Configuration.objects.select_related("model__provider")
    return rows.filter(slug=slug).first() if slug else None


def _fallbacks(paths: Iterable[str]) -> list[LanguageModel]:
    """Those that can still be asked, as for a run with today's versions."""
    return [row for path in paths if (row := _found(path)) is not None and row.usable]


def _found(path: str) -> LanguageModel | None:
    provider, _slash, name = path.partition("/")
    return LanguageModel.objects.select_related("provider").filter(provider__slug=provider, name=name).first()


def _model(path: str) -> LanguageModel:
    row = _found(path)
    if row is None or not row.usable:
        raise ConfigurationError(f"The model “{path}” of that version is gone or switched off: run with today's.")
    return row
