"""The shop: what it sells, who bought it, and how that was paid."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class Product(models.Model):
    """Something the shop sells."""

    class Category(models.TextChoices):
        COFFEE = "coffee", _("coffee")
        TEA = "tea", _("tea")
        BREWING = "brewing", _("brewing")
        CUPS = "cups", _("cups")

    sku = models.CharField(_("SKU"), max_length=20, unique=True)
    name = models.CharField(_("name"), max_length=100)
    category = models.CharField(_("category"), max_length=10, choices=Category.choices)
    price = models.DecimalField(_("price (EUR)"), max_digits=8, decimal_places=2)
    stock = models.PositiveIntegerField(_("in stock"))
    reorder_level = models.PositiveIntegerField(_("reorder at"))

    class Meta:
        ordering = ["sku"]
        verbose_name = _("product")
        verbose_name_plural = _("products")

    def __str__(self) -> str:
        return self.name


class Customer(models.Model):
    """Somebody who bought something."""

    name = models.CharField(_("name"), max_length=100)
    email = models.EmailField(_("e-mail"), unique=True)
    city = models.CharField(_("city"), max_length=60)
    country = models.CharField(_("country"), max_length=2)
    language = models.CharField(_("language"), max_length=2)
    since = models.DateField(_("customer since"))

    class Meta:
        ordering = ["name"]
        verbose_name = _("customer")
        verbose_name_plural = _("customers")

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """What a customer bought at one time. `total` is the sum of its lines and the shipping, in euros."""

    class Status(models.TextChoices):
        PLACED = "placed", _("placed")
        PAID = "paid", _("paid")
        SHIPPED = "shipped", _("shipped")
        DELIVERED = "delivered", _("delivered")
        CANCELLED = "cancelled", _("cancelled")

    number = models.CharField(_("number"), max_length=20, unique=True)
    customer = models.ForeignKey(Customer, models.PROTECT, related_name="orders", verbose_name=_("customer"))
    status = models.CharField(_("status"), max_length=10, choices=Status.choices)
    created = models.DateTimeField(_("ordered"), db_index=True)
    shipping = models.DecimalField(_("shipping (EUR)"), max_digits=8, decimal_places=2)
    total = models.DecimalField(_("total (EUR)"), max_digits=8, decimal_places=2)
    carrier = models.CharField(_("carrier"), max_length=20, blank=True)
    tracking = models.CharField(_("tracking number"), max_length=40, blank=True)

    class Meta:
        ordering = ["-created"]
        verbose_name = _("order")
        verbose_name_plural = _("orders")

    def __str__(self) -> str:
        return self.number


class OrderLine(models.Model):
    """One product of an order, at the price of that day."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="lines", verbose_name=_("order"))
    product = models.ForeignKey(Product, models.PROTECT, related_name="lines", verbose_name=_("product"))
    quantity = models.PositiveSmallIntegerField(_("quantity"))
    unit_price = models.DecimalField(_("unit price (EUR)"), max_digits=8, decimal_places=2)

    class Meta:
        ordering = ["pk"]
        verbose_name = _("order line")
        verbose_name_plural = _("order lines")

    def __str__(self) -> str:
        return f"{self.quantity} × {self.product}"


class Payment(models.Model):
    """Money that a customer was charged, or will be. `captured_at` is null until then."""

    class State(models.TextChoices):
        AUTHORIZED = "authorized", _("authorized")
        CAPTURED = "captured", _("captured")
        VOIDED = "voided", _("voided")

    class Method(models.TextChoices):
        CARD = "card", _("card")
        PAYPAL = "paypal", _("PayPal")
        INVOICE = "invoice", _("invoice")

    reference = models.CharField(_("reference"), max_length=20, unique=True)
    order = models.ForeignKey(Order, models.CASCADE, related_name="payments", verbose_name=_("order"))
    method = models.CharField(_("method"), max_length=10, choices=Method.choices)
    state = models.CharField(_("state"), max_length=12, choices=State.choices)
    amount = models.DecimalField(_("amount (EUR)"), max_digits=8, decimal_places=2)
    captured_at = models.DateTimeField(_("captured"), null=True, blank=True)

    class Meta:
        ordering = ["captured_at", "pk"]
        verbose_name = _("payment")
        verbose_name_plural = _("payments")

    def __str__(self) -> str:
        return self.reference


class Refund(models.Model):
    """Money given back from a payment."""

    reference = models.CharField(_("reference"), max_length=20, unique=True)
    payment = models.ForeignKey(Payment, models.CASCADE, related_name="refunds", verbose_name=_("payment"))
    amount = models.DecimalField(_("amount (EUR)"), max_digits=8, decimal_places=2)
    reason = models.CharField(_("reason"), max_length=200)
    created = models.DateTimeField(_("refunded"))

    class Meta:
        ordering = ["-created"]
        verbose_name = _("refund")
        verbose_name_plural = _("refunds")

    def __str__(self) -> str:
        return self.reference


class OrderNote(models.Model):
    """What somebody wrote down about an order; the same text is on an order only once."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="notes", verbose_name=_("order"))
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("author")
    )
    text = models.CharField(_("text"), max_length=500)
    created = models.DateTimeField(_("written"), auto_now_add=True)

    class Meta:
        ordering = ["pk"]
        verbose_name = _("order note")
        verbose_name_plural = _("order notes")
        constraints = [models.UniqueConstraint(fields=["order", "text"], name="demo_note_unique")]

    def __str__(self) -> str:
        return self.text


class LoadedItem(models.Model):
    """Something that `demo_load` brought in once, and so never brings in again: people may have changed or deleted it.

    `value` is what it wrote where that may have to follow the installation (the demo model's address).
    """

    key = models.CharField(max_length=100, unique=True)
    value = models.CharField(max_length=500, blank=True)

    def __str__(self) -> str:
        return self.key
