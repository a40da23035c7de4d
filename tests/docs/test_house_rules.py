"""What holds for every tracked file: it stands alone, has one subject, and leaves nothing open."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT

MOST_LINES = 300
"""About 250 are meant; this is where the patience ends."""

LONGER = {
    "tests/client/test_boundary.py": 425,
    "tests/client/test_recorder.py": 330,
    "tests/rpc/test_audit_read.py": 315,
}
"""Lists of rules about one thing each, with as many lines as they may have."""

_GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$|\.lock$|\.binpb$")
_THIS = Path(__file__).resolve().relative_to(ROOT)

FOREIGN = {
    "a path of one machine": r"(?<![\w.:/])/(work|root|home/\w+|Users)/\w",
    "an index of packages": (
        r"--(extra-)?index-url|--find-links|/simple/|pyp[i]\.org|pythonhoste[d]\.org|npmj[s]\.|debia[n]\.org"
    ),
    "something left open": r"\b(TODO|FIXME|XXX)\b",
    "a merge that was left half done": r"^(<{7}|>{7}) ",
}

_SLEEP = re.compile(r"\bsleep\((?P<time>.*)")
_LONGEST_POLL_SECONDS = 0.05
_TIMING_IS_TESTED = "# the time itself is the subject"


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("these files did not come from git")
    names = [Path(name) for name in listed.stdout.decode().split("\0") if name]
    return [name for name in names if (ROOT / name).is_file() and name != _THIS]


def _lines(name: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), start=1):
        yield f"{name}:{number}", line


def _written_by_hand() -> list[Path]:
    return [name for name in _tracked() if not _GENERATED.search(name.name)]


@pytest.mark.parametrize("what", FOREIGN)
def test_no_file_holds(what: str) -> None:
    pattern = re.compile(FOREIGN[what])
    found = [place for name in _written_by_hand() for place, line in _lines(name) if pattern.search(line)]
    assert found == []


def test_a_file_of_code_is_not_longer_than_its_one_subject_needs() -> None:
    long = {}
    for name in _written_by_hand():
        lines = sum(1 for _ in _lines(name)) if name.suffix == ".py" else 0
        if lines > LONGER.get(name.as_posix(), MOST_LINES):
            long[name.as_posix()] = lines
    assert long == {}


def test_tests_wait_for_conditions_and_never_for_a_guessed_time() -> None:
    """Between two looks at a condition a test may sleep for a moment."""
    guessed = [
        place
        for name in _written_by_hand()
        if name.name.startswith("test_") and name.suffix == ".py"
        for place, line in _lines(name)
        if (found := _SLEEP.search(line)) and not _is_short(found["time"]) and _TIMING_IS_TESTED not in line
    ]
    assert guessed == []


def _is_short(time: str) -> bool:
    found = re.match(r"(\d+(\.\d+)?)\)", time)
    return found is not None and float(found[1]) <= _LONGEST_POLL_SECONDS


def test_no_source_has_a_name_that_git_ignores() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--directory"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    made = re.compile(r"(^|/)(\.[a-z_]+|__pycache__|build|dist|node_modules|target)/|\.env$|\.egg-info|\.db")
    found = [name for name in listed.stdout.decode().splitlines() if not made.search(name)]
    assert found == []
