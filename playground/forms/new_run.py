"""The form of a new run, and the same form as far as a preview needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from django import forms
from django.utils.translation import gettext_lazy as _

from llmcore import store
from llmcore.conf import settings
from llmcore.configuration import ThinkingEffort
from llmcore.prompts.variables import UnresolvedVariables, VariableUse
from llmcore.tools.replacement import Replacement
from llmcore.versions import KINDS
from playground.forms import replacements, variables
from playground.forms.new_run_options import Option, ParameterInput, ToolOption, ToolOptionGroup
from playground.forms.raw_capture import RawCapture, capture_raw_field
from playground.forms.replacements import ReplacementInput
from playground.forms.variables import VariableInput
from playground.services.prepare_run import Found
from playground.services.run_choices import RunChoices, TextChoice, ToolChoice
from playground.services.start_run import MAX_TITLE_CHARS, OverrideMode, RunRequest

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

MAX_PROMPT_BYTES = 1_000_000
OVERRIDES = [("none", _("Not given")), ("replace", _("Replace")), ("append", _("Append"))]


class TextField(forms.CharField):
    """Text as it was typed: not stripped, with the line ends that everything else here has.

    Browsers send CR LF from a form and LF from a script; the preview and the run must be made of the same bytes.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(strip=False, widget=forms.Textarea, **options)

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n").replace("\r", "\n")

    def validate(self, value: str) -> None:
        super().validate(value if value.strip() or not self.required else "")
        if len(value.encode("utf-8", "surrogatepass")) > MAX_PROMPT_BYTES:
            raise forms.ValidationError(_("This is longer than 1 MB."), code="too_long")


class OrderedChoiceField(forms.MultipleChoiceField):
    """Several of the choices, in the order in which they were given, each once."""

    def clean(self, value: Any) -> list[str]:
        return list(dict.fromkeys(super().clean(value)))


class TextsField(OrderedChoiceField):
    """Some of the stored texts. Only those that were sent in are read: `found`, by slug."""

    def __init__(self, *, find: Callable[[Sequence[str]], Mapping[str, Any]], **options: Any) -> None:
        super().__init__(**options)
        self._find = find
        self.found: Mapping[str, Any] = {}

    def validate(self, value: list[str]) -> None:
        self.found = self._find(value)
        super().validate(value)

    def valid_value(self, value: Any) -> bool:
        return value in self.found


class ConfigurationField(forms.ChoiceField):
    """One of the configurations. That `found` can be chosen is known: it takes no look at the others."""

    found = ""

    def valid_value(self, value: Any) -> bool:
        return value == self.found or super().valid_value(value)


class VersionsField(forms.CharField):
    """The versions that the run is to be made of, as `configuration:5:3 skill:2:1`; empty for what is stored now."""

    def to_python(self, value: Any) -> Any:
        refs = (ref.split(":") for ref in str(super().to_python(value) or "").split())
        try:
            return tuple((kind, int(pk), int(number)) for kind, pk, number in refs if kind in KINDS)
        except ValueError:
            raise forms.ValidationError(_("Start again from the run."), code="invalid") from None


class NewRunForm(RawCapture, forms.Form):
    """What a person asks for when starting a run. Blank means "as configured".

    `tools_of` names the configuration whose tools the form showed: where another one is chosen, the ticks are not an
    answer to it and the tools are as configured.
    """

    configuration = ConfigurationField(label=_("Configuration"))
    prompt = TextField(label=_("User prompt"), error_messages={"required": _("Enter a user prompt.")})
    title = forms.CharField(label=_("Title"), max_length=MAX_TITLE_CHARS, required=False)
    override = forms.ChoiceField(
        label=_("System prompt override"),
        choices=OVERRIDES,
    )
    system_override = TextField(label=_("System prompt override"), required=False)
    skills = TextsField(label=_("Forced skills"), required=False, find=store.find_skills)
    snippets = TextsField(label=_("Forced snippets"), required=False, find=store.find_snippets)
    tools = OrderedChoiceField(label=_("Tools"), required=False)
    tools_of = forms.CharField(required=False)
    max_rounds = forms.IntegerField(label=_("Max rounds"), required=False, min_value=1)
    max_tokens = forms.IntegerField(label=_("Max tokens"), required=False, min_value=1)
    temperature = forms.FloatField(label=_("Temperature"), required=False, min_value=0, max_value=2)
    thinking = forms.ChoiceField(label=_("Thinking"), required=False)
    capture_raw = capture_raw_field()
    versions = VersionsField(label=_("Versions"), required=False)

    def __init__(self, *args: Any, choices: RunChoices, **options: Any) -> None:
        super().__init__(*args, **options)
        self.choices = choices
        self.variable_errors: dict[str, str] = {}
        if choices.configuration is not None:
            cast(ConfigurationField, self.fields["configuration"]).found = choices.configuration.slug
        self._choices_of("configuration", lambda: [(row.slug, str(row)) for row in choices.configurations])
        self._choices_of("tools", lambda: [(tool.name, tool.name) for tool in choices.tools])
        replacements.add_fields(self, self._replaceable)
        self._choices_of("thinking", lambda: [("", ""), *((effort, effort) for effort in get_args(ThinkingEffort))])

    def _choices_of(self, name: str, pairs: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """Called when they are needed: few fields of a form that was sent in have more than one value to check."""
        cast(forms.ChoiceField, self.fields[name]).choices = pairs

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        for name in variables.overlong(self.typed_variables):
            self._refuse_variable(name, str(_("This is longer than 1 MB.")))
        return data

    @property
    def typed_variables(self) -> dict[str, str]:
        """The values of variables that were typed in, by name."""
        return variables.typed_in(self.data if self.is_bound else self.initial)

    def refuse_unresolved(self, error: UnresolvedVariables) -> None:
        for use in error.uses:
            self._refuse_variable(use.name, str(_("Enter a value.")))

    def _refuse_variable(self, name: str, message: str) -> None:
        self.variable_errors[name] = message
        self.add_error(None, f"{name}: {message}")

    def variable_inputs(self, uses: Sequence[VariableUse] | None) -> list[VariableInput]:
        """The fields for the variables that the prompt has, `None` where that isn't known."""
        return variables.inputs_of(uses, self.typed_variables, self.variable_errors)

    def clean_max_rounds(self) -> int | None:
        return self._at_most("max_rounds", settings.LLM_MAX_ROUNDS, _("This site allows at most %(bound)s rounds."))

    def clean_max_tokens(self) -> int | None:
        configuration = self.choices.configuration
        cap = configuration.model.max_output_tokens if configuration else None
        return self._at_most("max_tokens", cap, _("This model gives at most %(bound)s tokens."))

    def _at_most(self, name: str, bound: int | None, message: StrPromise) -> int | None:
        value: int | None = self.cleaned_data[name]
        if value is not None and bound is not None and value > bound:
            raise forms.ValidationError(message, params={"bound": f"{bound:,}"}, code="over_bound")
        return value

    def clean_temperature(self) -> float | None:
        return cast("float | None", self._if_supported("temperature", "supports_temperature"))

    def clean_thinking(self) -> str | None:
        return cast("str | None", self._if_supported("thinking", "supports_thinking") or None)

    def _if_supported(self, name: str, capability: str) -> Any:
        value = self.cleaned_data[name]
        configuration = self.choices.configuration
        if value not in (None, "") and configuration and not getattr(configuration.model, capability):
            raise forms.ValidationError(_("This model doesn't support it."), code="unsupported")
        return value

    @property
    def found(self) -> Found | None:
        """What the valid form names, as it was read to check it."""
        if self.choices.loaded is None:
            return None
        skills, snippets = (getattr(self.fields.get(name), "found", {}) for name in ("skills", "snippets"))
        return Found(configuration=self.choices.loaded, skills=skills, snippets=snippets)

    @property
    def _replaceable(self) -> list[ToolChoice]:
        return [tool for tool in self.choices.tools if not tool.unavailable]

    @property
    def replacement_inputs(self) -> list[ReplacementInput]:
        return replacements.inputs_of(self, self._replaceable)

    @property
    def replacements_open(self) -> bool:
        """Whether there is something to see in that part: a tool that doesn't simply run, or an error."""
        return bool(self["recorded_from"].errors) or any(field.mode.value() for field in self.replacement_inputs)

    def replacements(self, tools: Iterable[str] | None) -> tuple[Replacement, ...]:
        """What was chosen for the `tools` of the run; `None`: those of the configuration."""
        return replacements.replacements_of(self.cleaned_data, self._replaceable, tools)

    def run_request(self, *, dry_run: bool = False) -> RunRequest:
        """The valid form as a request."""
        data = self.cleaned_data
        given = data["override"] != "none"
        return RunRequest(
            **self.run_settings(dry_run=dry_run),
            prompt=data["prompt"],
            skills=tuple(data["skills"]),
            snippets=tuple(data["snippets"]),
            system_override=data["system_override"] if given else None,
            override_mode=cast(OverrideMode, data["override"]) if given else "replace",
            versions=data["versions"],
            variables=self.typed_variables,
        )

    def run_settings(self, *, dry_run: bool) -> dict[str, Any]:
        """The fields of a request that don't concern its texts."""
        data = self.cleaned_data
        tools = tuple(data["tools"]) if data["tools_of"] == data["configuration"] else None
        names = ("configuration", "title", "capture_raw", "max_rounds", "max_tokens", "temperature", "thinking")
        given = {name: data[name] for name in names}
        return {**given, "tools": tools, "replacements": self.replacements(tools), "dry_run": dry_run}

    @property
    def override_options(self) -> list[tuple[str, StrPromise, bool]]:
        """Value, label and whether it is chosen."""
        chosen = self["override"].value()
        return [(value, label, value == (chosen or "none")) for value, label in OVERRIDES]

    @property
    def skill_options(self) -> list[Option]:
        return self._options("skills", self.choices.skills)

    @property
    def snippet_options(self) -> list[Option]:
        return self._options("snippets", self.choices.snippets)

    def _options(self, name: str, choices: tuple[TextChoice, ...]) -> list[Option]:
        """The selected ones in their order, then the others by slug."""
        by_slug = {choice.slug: choice for choice in choices}
        selected = [slug for slug in dict.fromkeys(self[name].value() or ()) if slug in by_slug]
        chosen = [Option(choice=by_slug[slug], position=place) for place, slug in enumerate(selected, 1)]
        return chosen + [Option(choice=choice, position=0) for choice in choices if choice.slug not in selected]

    @property
    def tool_options(self) -> list[ToolOptionGroup]:
        configuration = self.choices.configuration
        answered = configuration is not None and self["tools_of"].value() == configuration.slug
        ticked = set(self["tools"].value() or ()) if answered else set(self.choices.default_tools)
        return [
            ToolOptionGroup(
                name=group.name,
                tools=tuple(
                    ToolOption(choice=tool, checked=tool.name in ticked and not tool.unavailable)
                    for tool in group.tools
                ),
            )
            for group in self.choices.tool_groups
        ]

    @property
    def offered_groups(self) -> list[ToolOptionGroup]:
        return [group for group in self.tool_options if group.selectable]

    @property
    def closed_groups(self) -> list[ToolOptionGroup]:
        """Groups of which no tool can be offered."""
        return [group for group in self.tool_options if not group.selectable]

    @property
    def parameters(self) -> list[ParameterInput]:
        row = self.choices.configuration
        if row is None:
            return []
        as_configured = f"as configured ({row.get_thinking_display()})"
        return [
            ParameterInput(field=self["max_rounds"], configured=str(min(row.max_rounds, settings.LLM_MAX_ROUNDS))),
            ParameterInput(field=self["max_tokens"], configured=_or_default(row.max_tokens)),
            ParameterInput(
                field=self["temperature"],
                configured=_or_default(row.temperature),
                supported=row.model.supports_temperature,
                inputmode="decimal",
            ),
            ParameterInput(
                field=self["thinking"],
                configured=row.thinking,
                supported=row.model.supports_thinking,
                options=(("", as_configured), *((effort, effort) for effort in get_args(ThinkingEffort))),
            ),
        ]

    @property
    def advanced_open(self) -> bool:
        """Whether there is something to see among the parameters: a value or an error."""
        fields = [parameter.field for parameter in self.parameters]
        return any(field.value() not in (None, "") or field.errors for field in fields)


def _or_default(value: float | None) -> str:
    return "model's default" if value is None else str(value)


class PreviewForm(NewRunForm):
    """The same form while it is being filled in: the user prompt may still be missing."""

    def __init__(self, *args: Any, choices: RunChoices, **options: Any) -> None:
        super().__init__(*args, choices=choices, **options)
        self.fields["prompt"].required = False
