"""Callers with tokens: the file that names them, and the metadata that each sends."""

import hashlib
from pathlib import Path

CALLERS = {"gw": "gateway", "page": "trace", "ops": "operator"}
"""Name -> role. The token of a caller is `<name>-token`."""


def auth_line(name: str, roles: str) -> str:
    """The line of AUTH_FILE for a caller."""
    return f"{name} {hashlib.sha256(f'{name}-token'.encode()).hexdigest()} {roles}"


def auth_file(folder: Path, **callers: str) -> Path:
    """An AUTH_FILE with these callers, or with one of each role."""
    path = folder / "tokens"
    path.write_text("".join(f"{auth_line(*one)}\n" for one in (callers or CALLERS).items()))
    return path


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """The metadata of a call with a token."""
    return (("authorization", f"Bearer {token}"),)


def calling(name: str) -> tuple[tuple[str, str], ...]:
    """The metadata of a call of a caller of the file."""
    return bearer(f"{name}-token")
