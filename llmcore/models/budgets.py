"""Budgets: what may be used in a day or a month, what of it is used or reserved, and when it came near its limit."""

from __future__ import annotations

from decimal import Decimal

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from llmcore.budgets.base import Allowance
from llmcore.models.configurations import Configuration


class Budget(models.Model):
    """The most that may be used in each day or month: of a configuration, by a user, by every user alone, or by the
    whole site."""

    class Period(models.TextChoices):
        DAY = "day", _("day")
        MONTH = "month", _("month")

    name = models.CharField(
        _("name"),
        max_length=100,
        unique=True,
        help_text=_("Named to whoever's run comes near the limit or ends at it."),
    )
    configuration = models.ForeignKey(
        Configuration,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="budgets",
        verbose_name=_("configuration"),
        help_text=_("Only calls of its runs count. Blank: those of all configurations."),
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("user"),
        help_text=_("Only calls of this user's runs count. Blank: those of everybody."),
    )
    each_user = models.BooleanField(
        _("for each user"),
        default=False,
        help_text=_("Every user may use so much. Calls that are made for no user share one such budget."),
    )
    period = models.CharField(
        _("period"),
        max_length=10,
        choices=Period.choices,
        help_text=_("Begins anew at midnight in the site's time zone."),
    )
    max_requests = models.PositiveIntegerField(
        _("request limit"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Each attempt at a call is one."),
    )
    max_tokens = models.PositiveBigIntegerField(
        _("token limit"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Of prompts and answers together."),
    )
    max_cost = models.DecimalField(
        _("cost limit (USD)"),
        max_digits=12,
        decimal_places=4,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal("0.0001"))],
        help_text=_("Models without a price can't be used then: their cost is unknown."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("budget")
        verbose_name_plural = _("budgets")
        constraints = [
            models.CheckConstraint(
                condition=models.Q(each_user=False) | models.Q(user=None),
                name="llmcore_budget_whose",
                violation_error_message=_("Either for each user, or for the one that is named."),
            )
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if not self.allowance:
            raise ValidationError(_("Set at least one limit: requests, tokens or cost."))

    @property
    def allowance(self) -> Allowance:
        return Allowance(requests=self.max_requests, tokens=self.max_tokens, cost=self.max_cost)


class BudgetPeriod(models.Model):
    """What is taken of a budget in one day or month: used, and reserved by calls in flight. Costs are billionths of a
    US dollar, so that both databases add them exactly. Of a budget for each user it is what `user` took, or calls that
    are made for nobody."""

    budget = models.ForeignKey(Budget, models.CASCADE, related_name="periods")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", verbose_name=_("user")
    )
    begins_on = models.DateField(_("begins"))
    requests = models.BigIntegerField(_("requests"), default=0)
    tokens = models.BigIntegerField(_("tokens"), default=0)
    cost = models.BigIntegerField(_("cost"), default=0)

    class Meta:
        ordering = ["-begins_on"]
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "begins_on"], name="llmcore_budget_period", condition=models.Q(user=None)
            ),
            models.UniqueConstraint(fields=["budget", "begins_on", "user"], name="llmcore_budget_user_period"),
        ]

    def __str__(self) -> str:
        return f"{self.budget}, {self.begins_on}"


class BudgetReservation(models.Model):
    """What one call in flight has reserved of one period; what of that counts where nobody hears of it any more."""

    token = models.CharField(max_length=32)
    period = models.ForeignKey(BudgetPeriod, models.CASCADE, related_name="reservations")
    run_id = models.BigIntegerField(null=True, db_index=True)
    requests = models.BigIntegerField()
    tokens = models.BigIntegerField()
    cost = models.BigIntegerField()
    sent_tokens = models.BigIntegerField()
    sent_cost = models.BigIntegerField()
    ends_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["period_id"]
        constraints = [models.UniqueConstraint(fields=["token", "period"], name="llmcore_budget_reservation")]

    def __str__(self) -> str:
        return f"{self.period}, run {self.run_id}"


class BudgetCrossing(models.Model):
    """That a budget came to 70, 90 or 100 % of one of its limits, once in each period."""

    class Measure(models.TextChoices):
        REQUESTS = "requests", _("requests")
        TOKENS = "tokens", _("tokens")
        COST = "cost", _("cost")

    period = models.ForeignKey(BudgetPeriod, models.CASCADE, related_name="crossings", verbose_name=_("period"))
    measure = models.CharField(_("limit"), max_length=10, choices=Measure.choices)
    percent = models.PositiveSmallIntegerField(_("percent"))
    run_id = models.BigIntegerField(_("run"), null=True)
    crossed_at = models.DateTimeField(_("time"))

    class Meta:
        ordering = ["-crossed_at", "-percent"]
        verbose_name = _("crossing")
        verbose_name_plural = _("crossings")
        constraints = [models.UniqueConstraint(fields=["period", "measure", "percent"], name="llmcore_budget_crossing")]

    def __str__(self) -> str:
        return f"{self.percent} % of {self.get_measure_display()}"
