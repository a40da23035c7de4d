"""What nobody knows how to run is an error, so that no snippet goes untested."""

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, Block
from tests.docs.serving import Pair
from tests.docs.shell import Shell, commands


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell without services behind it."""
    return Shell(Pair(tmp_path, "127.0.0.1:1", "127.0.0.1:2"))


def block(text: str) -> Block:
    return Block(ROOT / "README.md", 1, "sh", text)


@pytest.mark.parametrize("command", ["curl https://example.org", "NAME=value", "cd docs && make demo"])
def test_a_command_of_an_unknown_kind_fails(shell: Shell, command: str) -> None:
    with pytest.raises(AssertionError, match="no test knows how to run"):
        shell.run(command)


@pytest.mark.parametrize("command", ["make no-such-target", 'make test T="tests/no_such_folder"'])
def test_a_command_that_does_not_work_fails(shell: Shell, command: str) -> None:
    with pytest.raises(AssertionError, match="ended with"):
        shell.run(command)


def test_another_output_than_the_one_shown_fails(shell: Shell) -> None:
    shell.output = '{"run": {"run_id": "run-1", "last_seq": "1"}}'
    shell.check_json('{"run": {"runId": "run-1", "lastSeq": "…"}}')
    for shown in ('{"run": {"runId": "run-2", "lastSeq": "…"}}', '{"run": {"runId": "run-1"}}'):
        with pytest.raises(AssertionError, match="output"):
            shell.check_json(shown)


def test_a_command_goes_on_behind_a_backslash_and_in_open_quotes() -> None:
    text = "# why\nmake demo\n\ngrpcurl -d '{\n  }' \\\n  list\nmake test\n"
    assert list(commands(block(text))) == ["make demo", "grpcurl -d '{\n  }' \\\n  list", "make test"]


def test_quotes_that_stay_open_fail() -> None:
    with pytest.raises(AssertionError, match="open quotes"):
        list(commands(block("make demo Q='why\n")))
