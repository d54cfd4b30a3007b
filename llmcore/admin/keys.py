"""What the admin pages of all services with keys share: a key goes in and never comes out."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters

from llmcore.database_access import outside_transactions
from llmcore.errors import SecretUnavailable
from llmcore.forms.keys import key_state
from llmcore.keys import read_key
from llmcore.models.remote import Remote


class KeyedAdmin(admin.ModelAdmin):
    """The admin of services with keys; their form is a `KeyForm`."""

    class Media:
        css = {"all": ["llmcore/admin.css"]}

    readonly_fields = ["present_key"]

    # Its actions ask the services.
    @outside_transactions
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, extra_context)

    @method_decorator(sensitive_post_parameters("api_key"))
    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().changeform_view(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if problem := self.problem_with_key(obj):
            messages.warning(request, problem)

    def problem_with_key(self, remote: Any) -> str:
        """Why what is sent to it will fail for its key, with what to do; empty if it won't."""
        try:
            read_key(remote)
        except SecretUnavailable as error:
            return str(error)
        return ""

    @admin.display(description=gettext_lazy("key"), empty_value="–")
    def key(self, obj: Remote) -> str:
        return key_state(obj)

    @admin.display(description=gettext_lazy("present key"))
    def present_key(self, obj: Remote) -> str:
        if problem := self.problem_with_key(obj):
            return problem
        if obj.key_env:
            return _("read from %(variable)s for %(host)s") % {"variable": obj.key_env, "host": obj.key_host}
        return _("saved for %s") % obj.key_host if obj.encrypted_key else _("none")


def key_fields(remote: Remote | None, may_edit: bool) -> list[str]:
    if remote is None:
        return ["api_key", "key_env"]
    if not may_edit:
        return ["present_key"]
    fields = ["present_key", "api_key", "key_env"]
    if remote.encrypted_key:
        fields.insert(2, "remove_key")
    if remote.key_env:
        fields.append("send_to_new_host")
    return fields
