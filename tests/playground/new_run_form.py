"""What tests of the form of a new run share: the form as a browser sends it."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from llmcore.models import Configuration
from tests.factories import UserFactory


def form_data(configuration: Configuration, **changes: Any) -> dict[str, Any]:
    """The form for `configuration` with a prompt and nothing else chosen."""
    data = {
        "configuration": configuration.slug,
        "tools_of": configuration.slug,
        "prompt": "Where is my order?",
        "override": "none",
        "system_override": "",
        "max_rounds": "",
        "max_tokens": "",
        "temperature": "",
        "thinking": "",
    }
    return {**data, **changes}


def client_with(*permissions: str, **user: Any) -> Client:
    """The browser of a staff user who has only these permissions."""
    client = Client()
    client.force_login(UserFactory(permissions=list(permissions), **user))
    return client


def preview_of(client: Client, data: dict[str, Any], view: str = "source") -> str:
    response = client.post(reverse("playground:preview"), {**data, "view": view}, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return response.content.decode()
