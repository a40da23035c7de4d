"""`superbizagent token new`: a token, and the line by which the services know it."""

import hashlib
import secrets
import sys

from cli.errors import DONE, USAGE, CommandError
from common.server.auth import ROLES, is_caller_name

_RANDOM_BYTES = 32


def new_token(name: str, roles: list[str]) -> int:
    """Print both. `roles` are names, or comma lists of them."""
    if not is_caller_name(name):
        raise CommandError("--name must be 1 to 64 of A-Z, a-z, 0-9, _, . and -, and no credential", USAGE)
    wanted = list(dict.fromkeys(role.strip() for several in roles for role in several.split(",")))
    if not set(wanted) <= ROLES:
        raise CommandError(f"--role must be of {', '.join(sorted(ROLES))}", USAGE)
    token = "sba_" + secrets.token_urlsafe(_RANDOM_BYTES)
    digest = hashlib.sha256(token.encode()).hexdigest()
    sys.stdout.write(f"token: {token}\nline: {name} {digest} {','.join(wanted)}\n")
    return DONE
