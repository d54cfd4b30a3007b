"""What a person may choose when starting a run: configurations, skills, snippets and tools, with what each costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby

from django.contrib.auth.models import User
from django.db.models import QuerySet

from llmcore import models, store
from llmcore.configuration import Configuration, Skill, Snippet
from llmcore.context.estimator import Estimator
from llmcore.errors import ConfigurationError
from llmcore.mcp_servers import every_tool
from llmcore.messages import ToolSpec
from llmcore.redaction import storable
from llmcore.runs.outcome import RunStatus
from llmcore.tools.base import Tool
from playground.models import Run
from playground.services.prepare_run import gate_for


@dataclass(frozen=True, kw_only=True, slots=True)
class TextChoice:
    """A skill or snippet that can be forced. `configured` says that the configuration brings it anyway."""

    slug: str
    name: str
    body: str
    estimator: Estimator
    enabled: bool
    configured: bool

    @property
    def tokens(self) -> int:
        """Counted when it is shown: who only starts a run needs none of it."""
        return self.estimator.text(self.body)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolChoice:
    """A tool that can be offered. `unavailable` is the reason why not, empty where it can; `default` tells whether
    the configuration offers it unasked."""

    spec: ToolSpec
    group: str
    estimator: Estimator
    requires_approval: bool
    default: bool
    unavailable: str = ""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def description(self) -> str:
        return self.spec.description

    @property
    def tokens(self) -> int:
        """Counted when it is shown, like those of a text."""
        return self.estimator.tools([self.spec])


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolGroup:
    """The tools of one group, by name."""

    name: str
    tools: tuple[ToolChoice, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PresetChoice:
    """A named set of tools that can be ticked at once: `tools` are those of it that can be offered."""

    slug: str
    name: str
    description: str
    tools: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunChoices:
    """Everything that can be chosen once `configuration` is: its row, and as it was `loaded`, without keys. `problem`
    says why it can't be used as it stands.

    What only a page shows is read when it is shown: who starts a run waits for none of it.
    """

    configuration: models.Configuration | None
    loaded: Configuration | None
    tool_groups: tuple[ToolGroup, ...]
    problem: str = ""

    @cached_property
    def configurations(self) -> tuple[models.Configuration, ...]:
        return tuple(usable_configurations())

    @cached_property
    def skills(self) -> tuple[TextChoice, ...]:
        return self._texts(models.Skill, self.loaded.skills if self.loaded else ())

    @cached_property
    def snippets(self) -> tuple[TextChoice, ...]:
        return self._texts(models.Snippet, (*self.loaded.snippets, *self.loaded.tagged_snippets) if self.loaded else ())

    @cached_property
    def tool_presets(self) -> tuple[PresetChoice, ...]:
        """Those of which something can be offered."""
        usable = {tool.name for tool in self.tools if not tool.unavailable}
        presets = (
            PresetChoice(
                slug=row.slug,
                name=row.name,
                description=row.description,
                tools=tuple(name for name in row.tools if name in usable),
            )
            for row in models.ToolPreset.objects.all()
        )
        return tuple(preset for preset in presets if preset.tools)

    def _texts(
        self, model: type[models.Skill] | type[models.Snippet], configured: Sequence[Skill | Snippet]
    ) -> tuple[TextChoice, ...]:
        estimator = Estimator.of(self.loaded.model) if self.loaded else Estimator()
        slugs = {item.slug for item in configured}
        rows = model.objects.order_by("slug").values_list("slug", "name", "body", "enabled")
        return tuple(
            TextChoice(slug=slug, name=name, body=body, estimator=estimator, enabled=enabled, configured=slug in slugs)
            for slug, name, body, enabled in rows
        )

    @property
    def tools(self) -> tuple[ToolChoice, ...]:
        return tuple(tool for group in self.tool_groups for tool in group.tools)

    @property
    def some_need_approval(self) -> bool:
        return any(tool.requires_approval and not tool.unavailable for tool in self.tools)

    @property
    def default_tools(self) -> list[str]:
        return [tool.name for tool in self.tools if tool.default]


def load_run_choices(*, user: User, configuration: str = "") -> RunChoices:
    """The choices of `user`. An unknown or disabled `configuration` (a slug, or any text) gives way to a likely one."""
    usable = usable_configurations()
    row = (configuration and usable.filter(slug=storable(configuration)).first()) or _likely(tuple(usable), user)
    value, problem = _load(row)
    return RunChoices(
        configuration=row, loaded=value, tool_groups=_tool_groups(value, user) if value else (), problem=problem
    )


def usable_configurations() -> QuerySet[models.Configuration]:
    """Those that nobody has switched off, nor their models or providers."""
    usable = models.Configuration.objects.filter(enabled=True, model__enabled=True, model__provider__enabled=True)
    return usable.select_related("model__provider", "tool_preset")


def _likely(rows: Sequence[models.Configuration], user: User) -> models.Configuration | None:
    """The one that `user` ran last; else the one that last completed a run, for anybody; else the first that loads."""
    runs = Run.objects.filter(configuration__in=[row.pk for row in rows]).order_by("-pk")
    for known in (runs.filter(user=user), runs.filter(status=RunStatus.COMPLETED)):
        if (last := known.values_list("configuration", flat=True).first()) is not None:
            return next(row for row in rows if row.pk == last)
    return next((row for row in rows if not _load(row)[1]), rows[0] if rows else None)


def _load(row: models.Configuration | None) -> tuple[Configuration | None, str]:
    if row is None:
        return None, ""
    try:
        return store.load_configuration(row, read_keys=False), ""
    except ConfigurationError as error:
        return None, str(error)


def _tool_groups(configuration: Configuration, user: User) -> tuple[ToolGroup, ...]:
    registry, estimator = every_tool(), Estimator.of(configuration.model)
    # Skills may narrow the gate further; which ones are injected is not known before the prompt is assembled.
    switches = store.load_switches()
    gate = partial(gate_for, configuration, assembly=None, user=user, registry=registry, switches=switches)
    everything, unasked = gate(requested=tuple(registry)), gate(requested=None)
    reasons = {left.name: left.detail for left in everything.left_out}

    def choice(tool: Tool) -> ToolChoice:
        return ToolChoice(
            spec=tool.spec,
            group=tool.group,
            estimator=estimator,
            requires_approval=bool(tool.requires_approval),
            default=tool.name in unasked.names,
            unavailable=reasons.get(tool.name, ""),
        )

    ordered = sorted(registry.values(), key=lambda tool: (tool.group, tool.name))
    return tuple(
        ToolGroup(name=name, tools=tuple(map(choice, tools))) for name, tools in groupby(ordered, lambda t: t.group)
    )
