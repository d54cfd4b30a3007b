"""Providers and their models."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from llmcore.models.base_url import clean_base_url
from llmcore.models.remote import Remote
from llmcore.providers.price_list import ShippedPrices, shipped_prices
from llmcore.usage import Prices, PriceTier

LIMIT_OF_NONE = _("This limit would let no call through. Enter 1 or more, or leave it blank for no limit.")


class Provider(Remote):
    """A service that answers requests: where it is, which wire format it speaks, and its key."""

    adapter = models.CharField(
        _("wire format"),
        max_length=40,
        help_text=_("How this service wants its requests. Most local servers are OpenAI-compatible."),
    )
    base_url = models.CharField(
        _("base URL"),
        max_length=200,
        help_text=_("Where the API begins, for example https://api.openai.com/v1. The key is sent to this host only."),
    )
    api_version = models.CharField(
        _("API version"),
        max_length=40,
        blank=True,
        help_text=_(
            "For Azure OpenAI only: the version in the classic address of a deployment, such as 2024-10-21. Leave it "
            "blank for the newer address, which has none."
        ),
    )
    connect_timeout_s = models.FloatField(_("connect timeout (s)"), default=10.0, validators=[MinValueValidator(0.1)])
    read_timeout_s = models.FloatField(
        _("read timeout (s)"),
        default=120.0,
        validators=[MinValueValidator(0.1)],
        help_text=_("Longest silence between two pieces of an answer."),
    )
    total_timeout_s = models.FloatField(
        _("total timeout (s)"),
        default=600.0,
        validators=[MinValueValidator(0.1)],
        help_text=_("Longest time for one whole call."),
    )
    max_attempts = models.PositiveSmallIntegerField(
        _("attempts"),
        default=3,
        validators=[MinValueValidator(1)],
        help_text=_("How often a call is tried in all when the server fails or limits the rate."),
    )
    max_calls_in_flight = models.PositiveIntegerField(
        _("calls at once"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1, LIMIT_OF_NONE)],
        help_text=_(
            "Most calls to this provider at the same time, over all workers. Those beyond it wait, first come, first "
            "served. Leave it blank for no limit."
        ),
    )

    class Meta:
        ordering = ["name"]
        verbose_name = _("provider")
        verbose_name_plural = _("providers")

    def clean(self) -> None:
        if self.base_url:
            try:
                self.base_url = clean_base_url(self.base_url, allow_private_hosts=self.allow_private_hosts)
            except ValidationError as error:
                raise ValidationError({"base_url": error}) from error
        if self.total_timeout_s and self.read_timeout_s and self.total_timeout_s < self.read_timeout_s:
            raise ValidationError(
                {"total_timeout_s": _("The whole call can't have less time than one silence in it: raise this one.")}
            )


class LanguageModel(models.Model):
    """One model of a provider: its window, its output cap, what it can do, what it costs."""

    class InlineThink(models.TextChoices):
        NONE = "", _("no")
        TAGS = "tags", _("in <think> tags at the start of the answer")
        PREFILLED = "prefilled", _("as tags, the opening one left out")

    class ThinkingControl(models.TextChoices):
        EFFORT = "effort", _("an effort in words")
        BUDGET = "budget", _("a budget of tokens")

    provider = models.ForeignKey(Provider, models.CASCADE, related_name="models", verbose_name=_("provider"))
    name = models.CharField(_("name"), max_length=200, help_text=_("As the provider spells it."))
    label = models.CharField(
        _("label"), max_length=200, blank=True, help_text=_("How this site shows it; the name if empty.")
    )
    context_window = models.PositiveIntegerField(
        _("context window"), null=True, blank=True, help_text=_("Tokens of prompt and answer together.")
    )
    max_output_tokens = models.PositiveIntegerField(
        _("output cap"), null=True, blank=True, help_text=_("Most tokens of one answer.")
    )
    supports_tools = models.BooleanField(_("tools"), default=True)
    supports_tool_choice = models.BooleanField(_("tool choice"), default=True)
    tools_as_json = models.BooleanField(
        _("tool calls as JSON"),
        default=False,
        help_text=_("For a model that can't call tools by itself: what it wants to do is asked for as JSON."),
    )
    supports_temperature = models.BooleanField(
        _("temperature"), default=True, help_text=_("Many reasoning models refuse it.")
    )
    supports_thinking = models.BooleanField(_("thinking effort"), default=False)
    thinking_control = models.CharField(
        _("thinking is set as"),
        max_length=10,
        default="effort",
        choices=ThinkingControl.choices,
        help_text=_("How the model is told how much to think. Older models of Anthropic and Google take a budget."),
    )
    supports_streaming = models.BooleanField(_("streaming"), default=True)
    supports_images = models.BooleanField(_("images"), default=False)
    supports_structured_output = models.BooleanField(
        _("structured output"),
        default=True,
        help_text=_("Its answers can be held to a JSON Schema. Else the schema is said in the prompt."),
    )
    inline_think = models.CharField(
        _("writes its thinking into the answer"), max_length=10, blank=True, default="", choices=InlineThink.choices
    )
    # What runs have taught about its tokens: the ratios of reported to estimated ones, the newest last, and what they
    # were estimated with.
    token_ratios = models.JSONField(default=list, editable=False)
    token_basis = models.CharField(max_length=40, blank=True, default="", editable=False)
    input_price = models.DecimalField(
        _("input price"),
        validators=[MinValueValidator(0)],
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text=_("US dollars per million tokens. Leave blank if unknown: unpriced is shown as blank, never as 0."),
    )
    cache_read_price = models.DecimalField(
        _("cached read price"),
        validators=[MinValueValidator(0)],
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
    )
    cache_creation_price = models.DecimalField(
        _("cache write price"),
        validators=[MinValueValidator(0)],
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
    )
    output_price = models.DecimalField(
        _("output price"), validators=[MinValueValidator(0)], max_digits=12, decimal_places=6, null=True, blank=True
    )
    price_tiers = models.JSONField(_("prices of long prompts"), default=list, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        ordering = ["provider__name", "name"]
        verbose_name = _("model")
        verbose_name_plural = _("models")
        constraints = [models.UniqueConstraint(fields=["provider", "name"], name="llmcore_model_unique")]

    def __str__(self) -> str:
        return self.label or self.name

    @property
    def path(self) -> str:
        """What tells it from all others of this site, also after it is gone."""
        return f"{self.provider.slug}/{self.name}"

    @property
    def prices(self) -> Prices:
        return Prices(
            input=self.input_price,
            cache_read=self.cache_read_price,
            cache_creation=self.cache_creation_price,
            output=self.output_price,
            tiers=tuple(PriceTier.from_json(tier) for tier in self.price_tiers),
        )

    @prices.setter
    def prices(self, prices: Prices) -> None:
        self.input_price, self.output_price = prices.input, prices.output
        self.cache_read_price, self.cache_creation_price = prices.cache_read, prices.cache_creation
        self.price_tiers = [tier.to_json() for tier in prices.tiers]

    @property
    def shipped_prices(self) -> ShippedPrices | None:
        """What this version knows of its price, if it is asked for at the service itself."""
        return shipped_prices(self.provider.adapter, self.provider.base_url, self.name)

    @property
    def usable(self) -> bool:
        return self.enabled and self.provider.enabled

    def clean(self) -> None:
        errors = {}
        if self.context_window and self.max_output_tokens and self.max_output_tokens > self.context_window:
            errors["max_output_tokens"] = _("An answer can't be longer than the window: lower it or raise the window.")
        if (self.input_price is None) != (self.output_price is None):
            missing = "input_price" if self.input_price is None else "output_price"
            errors[missing] = _("A cost needs both prices: enter this one too (0 if it is free), or leave both blank.")
        for name in ("cache_read_price", "cache_creation_price"):
            if getattr(self, name) is not None and self.input_price is None:
                errors[name] = _("A cost needs the input and output prices too: enter them or leave this one blank.")
        if self.price_tiers and self.input_price is None:
            errors["price_tiers"] = _("Enter the input and output prices of shorter prompts, too.")
        if errors:
            raise ValidationError(errors)
