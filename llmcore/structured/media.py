"""What kind of file some bytes are: told by the bytes themselves, since a name or a browser may say anything."""

from __future__ import annotations

# Formats that the providers with wire formats of their own take as pictures.
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
# What an input declares that takes any of them.
ANY_IMAGE = "image/*"

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
    b"PK\x03\x04": "application/zip",
}


def media_type_of(data: bytes) -> str:
    """The media type of a picture, a PDF or an archive (as office documents are); empty for everything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for signature, media_type in _SIGNATURES.items() if data.startswith(signature)), "")


def taken_by(wanted: str) -> tuple[str, ...]:
    """The media types that an input takes which declares `wanted`."""
    return IMAGE_TYPES if wanted == ANY_IMAGE else (wanted,)


def is_image(wanted: str) -> bool:
    """Whether an input that declares `wanted` takes pictures."""
    return wanted == ANY_IMAGE or wanted in IMAGE_TYPES
