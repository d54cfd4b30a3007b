"""The rule for fields that hold a list of names as JSON."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _


def check_names(field: str, value: Any) -> None:
    """Refuse anything but a list of different, non-empty strings."""
    if not isinstance(value, list) or not all(isinstance(name, str) and name.strip() for name in value):
        raise ValidationError({field: _("Enter a list of names.")})
    if len(set(value)) < len(value):
        raise ValidationError({field: _("Each name may stand in the list once only: remove the doubles.")})
