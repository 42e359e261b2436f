"""Words of others inside of our own sentences."""

from __future__ import annotations


def as_code(text: str, most: int) -> str:
    """Somebody else's words, as code: they name nobody, link nowhere, and are not long."""
    plain = " ".join(text.replace("`", "'").split())
    if len(plain) > most:
        plain = plain[: most - 1] + "…"
    return f"`{plain}`" if plain else "nothing"
