"""Writes the random passwords of docker-compose.yml into .env (mode 600); what is there already stays."""

import os
import secrets
from pathlib import Path

ENV = Path(__file__).resolve().parent.parent / ".env"
PASSWORDS = ("MYSQL_ROOT_PASSWORD", "MYSQL_PASSWORD", "REDIS_PASSWORD")


def main() -> None:
    present = ENV.read_text() if ENV.exists() else ""
    names = {line.partition("=")[0].strip() for line in present.splitlines()}
    missing = [name for name in PASSWORDS if name not in names]
    if not missing:
        print("compose: .env has every password already")
        return
    if present and not present.endswith("\n"):
        present += "\n"
    # Hex needs no quoting, neither in .env nor in the URLs that the passwords become part of.
    text = present + "".join(f"{name}={secrets.token_hex(24)}\n" for name in missing)
    _write_private(text)
    print(f"compose: wrote {', '.join(missing)} to .env; keep it: the database keeps the passwords too")


def _write_private(text: str) -> None:
    """Replace .env at once by a file that was never readable by others."""
    part = ENV.with_name(".env.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    part.replace(ENV)


if __name__ == "__main__":
    main()
