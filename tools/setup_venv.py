"""Builds .venv from requirements.lock and installs the project into it, editable.

Runs on a bare Python: standard library only.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
INSTALLED = VENV / "installed.lock"
LOG = VENV / "setup.log"
ON_TERMINAL = sys.stdout.isatty()


def main() -> None:
    started = time.monotonic()
    _make_venv()
    if not INSTALLED.exists() or INSTALLED.read_bytes() != LOCK.read_bytes():
        _install_lock()
    say("installing the project itself")
    for _ in pip("install", "--no-deps", "--no-build-isolation", "--no-index", "--editable", str(ROOT)):
        pass
    say(f"ready after {time.monotonic() - started:.0f} s")


def _make_venv() -> None:
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", "import pip"], check=False).returncode == 0:
        return
    say(f"creating .venv with Python {sys.version.split()[0]}")
    shutil.rmtree(VENV, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", VENV], check=False, capture_output=True, text=True)
    if made.returncode:
        last = (made.stdout + made.stderr).strip().splitlines()[-1:]
        sys.exit(f"error: this Python cannot create a virtual environment: {' '.join(last)}")


def _install_lock() -> None:
    total = len(re.findall(r"^[a-z0-9]\S*==", LOCK.read_text(), re.MULTILINE))
    say(f"installing {total} packages at the exact versions of requirements.lock")
    collected = 0
    for line in pip("install", "--require-hashes", "--requirement", str(LOCK)):
        if line.startswith("Collecting "):
            collected += 1
            progress(f"  {collected}/{total} {line.split()[1]}", milestone=collected % 20 == 0)
        elif line.startswith("Installing collected packages"):
            progress(f"  {collected} fetched, unpacking", milestone=True)
    progress("  done", milestone=True)
    shutil.copyfile(LOCK, INSTALLED)


def pip(*arguments: str) -> Iterator[str]:
    """Yields pip's output lines; a failure ends the program with the end of the log."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PIP_NO_INPUT": "1"}
    with (
        LOG.open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as process,
    ):
        for line in process.stdout or ():
            log.write(line)
            yield line
    if process.returncode:
        end = "\n".join(LOG.read_text().splitlines()[-15:])
        sys.exit(f"{end}\nerror: pip failed; its whole output is in {LOG.relative_to(ROOT)}")


def progress(text: str, *, milestone: bool) -> None:
    """Rewrites one line on a terminal; elsewhere prints milestones only."""
    if ON_TERMINAL:
        print(f"\r{text:<60.60}", end="\n" if text == "  done" else "", flush=True)
    elif milestone:
        say(text)


def say(text: str) -> None:
    print(f"setup: {text}" if not text.startswith(" ") else text, flush=True)


if __name__ == "__main__":
    main()
