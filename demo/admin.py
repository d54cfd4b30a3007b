"""The shop's pages in the admin."""

from __future__ import annotations

from django.contrib import admin

from demo.models import Customer, Order, OrderLine, OrderNote, Payment, Product, Refund


class OrderLineInline(admin.TabularInline):
    model = OrderLine
    extra = 0
    autocomplete_fields = ["product"]


class PaymentInline(admin.TabularInline):
    model = Payment
    extra = 0
    show_change_link = True


class OrderNoteInline(admin.TabularInline):
    model = OrderNote
    extra = 0
    readonly_fields = ["author", "created"]


class RefundInline(admin.TabularInline):
    model = Refund
    extra = 0


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ["sku", "name", "category", "price", "stock", "reorder_level"]
    list_filter = ["category"]
    search_fields = ["sku", "name"]


@admin.register(Customer)
class CustomerAdmin(admin.ModelAdmin):
    list_display = ["name", "email", "city", "country", "since"]
    list_filter = ["country"]
    search_fields = ["name", "email"]


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "customer", "status", "created", "total"]
    list_filter = ["status", "created"]
    list_select_related = ["customer"]
    search_fields = ["number", "customer__name", "customer__email"]
    autocomplete_fields = ["customer"]
    inlines = [OrderLineInline, PaymentInline, OrderNoteInline]
    date_hierarchy = "created"


@admin.register(Payment)
class PaymentAdmin(admin.ModelAdmin):
    list_display = ["reference", "order", "method", "state", "amount", "captured_at"]
    list_filter = ["state", "method"]
    list_select_related = ["order"]
    search_fields = ["reference", "order__number"]
    autocomplete_fields = ["order"]
    inlines = [RefundInline]


@admin.register(Refund)
class RefundAdmin(admin.ModelAdmin):
    list_display = ["reference", "payment", "amount", "reason", "created"]
    list_select_related = ["payment"]
    search_fields = ["reference", "payment__reference"]
    autocomplete_fields = ["payment"]


admin.site.site_header = "Beanstalk shop administration"
admin.site.site_title = "Beanstalk shop"
