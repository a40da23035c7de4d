"""Shapes of well-known credentials. A string that has one as a whole is refused wherever it stands.

The shapes are matched against the whole value only: ids such as `task-…` or `risk-…`, hashes and trace ids
stay usable. The must-pass table in tests/unit holds real ids of the frameworks in use.
"""

import re

_SHAPES = (
    r"eyJ[\w-]*\.eyJ[\w-]*(\.[\w-]*)?",  # JSON Web Token
    r"(AKIA|ASIA)[A-Z0-9]{16}",  # AWS access key id
    r"AIza[\w-]{35}",  # Google API key
    r"sk-(proj-|ant-)?[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic and alike
    r"gh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
    r"xox[abprs]-[A-Za-z0-9-]+",  # Slack
)
CREDENTIAL_PATTERN = "|".join(f"(?:{shape})" for shape in _SHAPES)
"""For the whole value, in ASCII."""

_CREDENTIAL = re.compile(CREDENTIAL_PATTERN, re.ASCII)

CREDENTIAL_RULE = "must not have the shape of a credential"


def has_credential_shape(value: str) -> bool:
    """True if the whole value looks like a credential."""
    return _CREDENTIAL.fullmatch(value) is not None
