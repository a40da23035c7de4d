"""`conformance`: every rule on one line, and an exit code; what stands in the way is said once."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conformance import SCENARIOS
from tests.cli.commands import one_line, run
from tests.cli.conftest import Pair, serving_pair

_TOKENS = {"gateway": "token-of-a-gateway", "operator": "token-of-an-operator"}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Pair]:
    """A pair that wants to know who calls."""
    lines = [f"{role} {hashlib.sha256(token.encode()).hexdigest()} {role}" for role, token in _TOKENS.items()]
    tokens = tmp_path / "tokens"
    tokens.write_text("\n".join(lines))
    with serving_pair(tmp_path / "guarded", AUTH_FILE=str(tokens)) as pair:
        yield pair


@pytest.mark.timeout(120)
def test_services_that_keep_every_rule_get_a_full_table_and_exit_code_0(pair: Pair) -> None:
    done = run("conformance", "--run", f"{pair.run},{pair.run}", "--audit", pair.audit, cwd=pair.folder)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert lines[-1] == f"{len(SCENARIOS)} scenarios: {len(SCENARIOS)} passed"
    assert [scenario.rule for scenario in SCENARIOS] == [
        next((one.rule for one in SCENARIOS if line.endswith(one.rule)), line) for line in lines[:-1]
    ]


def test_a_service_that_is_not_there_is_said_once(tmp_path: Path) -> None:
    line = one_line(run("conformance", "--run", "127.0.0.1:1", cwd=tmp_path), 1)
    assert line.startswith("superbizagent conformance: RunService at 127.0.0.1:1 does not answer")


def test_addresses_that_are_exchanged_are_said_once(pair: Pair) -> None:
    done = run("conformance", "--run", pair.audit, "--audit", pair.run, cwd=pair.folder)
    assert f"RunService at {pair.audit} is another service" in one_line(done, 1)


@pytest.mark.parametrize(
    ("token", "wanted"),
    [("", "a valid token"), ("unknown", "a valid token"), (_TOKENS["gateway"], "a role that may do this")],
)
def test_a_token_that_cannot_do_it_is_said_once_and_not_shown(token: str, wanted: str, guarded: Pair) -> None:
    # An empty variable counts as not set.
    line = one_line(run("conformance", *guarded.options, cwd=guarded.folder, TOKEN=token), 2)
    assert f"RunService at {guarded.run} wants {wanted}: see SUPERBIZ_TOKEN" in line
    assert not token or token not in line


@pytest.mark.timeout(120)
def test_an_operator_checks_services_that_want_a_token(guarded: Pair) -> None:
    done = run("conformance", *guarded.options, cwd=guarded.folder, TOKEN=_TOKENS["operator"])
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
