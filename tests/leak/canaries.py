"""Canaries: values that nobody else says, in the shapes in which bodies and secrets come.

Each holds a mark of its own, made at run time. All marks of a test run begin alike, so that one search of a
sink finds every one of them, whatever became of the text around it.
"""

import base64
import random
import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

_LETTERS = string.ascii_lowercase + string.digits

SEED = secrets.randbits(64)
"""Of everything here that is drawn by chance."""

_random = random.Random(SEED)  # noqa: S311 - nothing is kept secret by it

PREFIX = "q" + "".join(_random.choices(_LETTERS, k=7))
"""What the marks of this run begin with."""

MARK_LENGTH = 16
"""As many characters as there are in an access key id after its first four."""


def new_mark() -> str:
    """Lower-case letters and digits, none of which any encoding of texts changes."""
    return PREFIX + "".join(_random.choices(_LETTERS, k=MARK_LENGTH - len(PREFIX)))


def new_number(bits: int) -> int:
    """A number that no field of `bits` bits may hold, and whose digits are looked for instead of a mark."""
    return -(10**9 + _random.randrange(10**9)) if bits == 32 else -(10**18 + _random.randrange(10**18))


@dataclass(frozen=True)
class Canary:
    """A value to send: `text` in the shape `shape`, found again by `mark`."""

    shape: str
    text: str
    mark: str


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _jwt(mark: str) -> str:
    header, claims = _base64('{"alg":"HS256","typ":"JWT"}'), _base64(f'{{"sub":"{mark}"}}')
    return f"{header}.{claims}.{mark}".replace("=", "").replace("+", "-").replace("/", "_")


def _pem(mark: str) -> str:
    lines = [_base64(f"{mark}{number:032}") for number in range(4)]
    return "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])


Shape = Callable[[str], str]

CREDENTIALS: dict[str, Shape] = {
    "jwt": _jwt,
    "aws key": lambda mark: f"AKIA{mark.upper()}",
    "google key": lambda mark: f"AIza{mark}{mark}abc",
    "sk- key": lambda mark: f"sk-proj-{mark}{mark}",
    "github": lambda mark: f"ghp_{mark}{mark}",
    "slack": lambda mark: f"xoxb-1234-{mark}",
}
"""Refused in every string, texts too."""

BODIES: dict[str, Shape] = {
    "sql": lambda mark: f"SELECT * FROM users WHERE name='{mark}' OR 1=1; --",  # noqa: S608 - that is meant
    "password=": lambda mark: f"password={mark}",
    "bearer": lambda mark: f"Bearer {mark}",
    "dsn": lambda mark: f"mysql://root:{mark}@10.0.0.5:3306/prod?ssl=0",
    "pem": _pem,
    "5 KB": lambda mark: f"evidence {mark} " * 200,
    "json": lambda mark: f'{{"sql":"{mark}","rows":[[1,"{mark}"]]}}',
    "emoji": lambda mark: f"👩‍👩‍👧‍👦{mark}🏳️‍🌈",
    "cjk": lambda mark: f"密码是{mark}です",
    "newline": lambda mark: f"x\n{mark}\r\nlevel=error event={mark}",
    "ansi": lambda mark: f"\x1b]0;{mark}\x07\x1b[2J\x9b31m{mark}\u202e",
    "base64": lambda mark: _base64(f"password is {mark}?") + "==",
    "percent": lambda mark: "%70%77%3d" + "".join(f"%{ord(letter):02x}" for letter in mark),
    "format": lambda mark: f"%s %({mark})s {{{mark}}} ${{jndi:ldap://{mark}/a}}",
    "spaced": lambda mark: f" {mark} ",
}
"""Refused in every string of a grammar; texts may hold them."""

NUL: dict[str, Shape] = {"nul": lambda mark: f"a\0{mark}"}
"""Refused everywhere: no text may hold it either."""

REFUSED = {**CREDENTIALS, **BODIES, **NUL}

ADMITTED: dict[str, Shape] = {
    "word": lambda mark: mark,
    "b64 in id": lambda mark: base64.b64encode(mark.encode()).decode().rstrip("="),
    "hex": lambda mark: mark.encode().hex(),
    "code": lambda mark: f"P{mark.upper()}",
    "dotted": lambda mark: f"a:{mark}.AKIA-b",
}
"""What identifiers and codes must admit: bytes that look like any other id."""

OTHER_SHAPES = ("number", "unknown field", "raw bytes")
"""Canaries that are no strings."""


def canary(shape: str) -> Canary:
    """A new canary in a shape."""
    mark = new_mark()
    return Canary(shape, (REFUSED | ADMITTED)[shape](mark), mark)


def percent_encoded(text: str) -> str:
    """The text where only printable ASCII may stand."""
    return quote(text, safe="")
