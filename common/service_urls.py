"""The addresses of the database and of Redis: what is accepted, and how they are shown."""

from typing import Any
from urllib.parse import SplitResult, urlsplit

DATABASE_URL_RULE = (
    "must be sqlite+aiosqlite:///path or mysql+aiomysql://user:pw@host:3306/db, "
    "with special characters of the password percent-encoded"
)
REDIS_URL_RULE = (
    "must be redis://[user:pw@]host:6379/0, rediss://... or unix:///path, "
    "with special characters of the password percent-encoded"
)


def database_url(value: Any) -> Any:
    """Check a database URL; raise ValueError without its text."""
    parts = _split(value)
    if parts.scheme == "sqlite+aiosqlite":
        good = not parts.netloc and parts.path.startswith("/") and len(parts.path) > 1
    else:
        good = parts.scheme == "mysql+aiomysql" and _is_server(parts) and len(parts.path) > 1
    if not good:
        raise ValueError(DATABASE_URL_RULE)
    return value


def redis_url(value: Any) -> Any:
    """Check a Redis URL; raise ValueError without its text."""
    parts = _split(value)
    if parts.scheme == "unix":
        good = parts.path.startswith("/")
    else:
        good = parts.scheme in ("redis", "rediss") and _is_server(parts)
    if not good:
        raise ValueError(REDIS_URL_RULE)
    return value


def redacted_url(value: str | None) -> str | None:
    """The URL without what may be secret: the password, and all that follows a question mark."""
    if value is None:
        return None
    parts = urlsplit(value)
    credentials, at, server = parts.netloc.rpartition("@")
    user, colon, _ = credentials.partition(":")
    shown = f"{user if colon else ''}:***@" if at else ""
    query = "?***" if parts.query else ""
    return f"{parts.scheme}://{shown}{server}{parts.path}{query}"


def _split(value: Any) -> SplitResult:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError
    return urlsplit(value)


def _is_server(parts: SplitResult) -> bool:
    """A host, a sane port, and no @ or # that belongs to a password written without percent-encoding.

    Such a password would otherwise be taken for a path, and be shown.
    """
    stray = "@" in parts.path + parts.query + parts.fragment or "@" in parts.netloc.rpartition("@")[0]
    return (
        bool(parts.hostname) and (parts.port is None or parts.port > 0) and not stray and not parts.fragment
    )
