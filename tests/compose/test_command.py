"""The conformance command: a table of rules, and an exit code that says whether all are kept."""

import os

import pytest

from cli.conformance import SCENARIOS
from cli.conformance.command import conformance
from cli.errors import CommandError
from tests.compose.pair import Addresses


@pytest.fixture(autouse=True)
def _no_settings_of_whoever_runs_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SUPERBIZ_")]:
        monkeypatch.delenv(name)


@pytest.mark.timeout(120)
def test_a_deployment_that_keeps_every_rule_gets_a_full_table_and_exit_code_0(
    processes: Addresses, capsys: pytest.CaptureFixture[str]
) -> None:
    code = conformance(run=",".join(processes.runs), audit=",".join(processes.audits))
    lines = capsys.readouterr().out.splitlines()
    assert code == 0, lines
    assert len(lines) == len(SCENARIOS) + 1
    assert all(line.startswith("passed ") for line in lines[:-1])
    assert lines[-1] == f"{len(SCENARIOS)} scenarios: {len(SCENARIOS)} passed"


def test_a_service_that_does_not_answer_is_said_once_with_exit_code_1(processes: Addresses) -> None:
    with pytest.raises(CommandError, match=r"AuditService at 127\.0\.0\.1:1 does not answer") as caught:
        conformance(run=processes.runs[0], audit="127.0.0.1:1")
    assert caught.value.exit_code == 1


def test_a_wrong_address_is_refused_without_repeating_it(processes: Addresses) -> None:
    with pytest.raises(CommandError, match="--run must be host:port") as caught:
        conformance(run=f"{processes.runs[0]},no address", audit=processes.audits[0])
    assert (caught.value.exit_code, "no address" in caught.value.line) == (2, False)
