"""Every snippet of the documents works as it stands there."""

import re
from pathlib import Path

import pytest

from common.server.auth import read_tokens
from tests.docs.markdown import ROOT, Block, blocks, documents
from tests.docs.python import run_blocks
from tests.docs.serving import Pair
from tests.docs.shell import Shell, commands
from tests.support.java import Stubs
from tests.support.node import node_modules, run_node

pytestmark = pytest.mark.timeout(300)  # commands start processes, and Java stubs are compiled

_RUN = {"sh", "json", "python", "java", "js", "auth"}
_PICTURES = {"text", "mermaid"}  # outputs, forms and drawings: there is nothing to run in them
_ELSEWHERE = {"yaml"}  # alerts over metrics: tests/cli/test_metrics.py


def _having(*languages: str) -> pytest.MarkDecorator:
    having = [one for one in documents() if any(block.language in languages for block in blocks(one))]
    return pytest.mark.parametrize("document", having, ids=lambda one: str(one.relative_to(ROOT)))


def _of(document: Path, *languages: str) -> list[Block]:
    return [block for block in blocks(document) if block.language in languages]


@pytest.mark.parametrize("document", documents(), ids=lambda one: str(one.relative_to(ROOT)))
def test_every_block_is_of_a_kind_that_is_run_or_a_picture(document: Path) -> None:
    strange = [
        block.place for block in blocks(document) if block.language not in _RUN | _PICTURES | _ELSEWHERE
    ]
    assert strange == []


@_having("sh", "json")
def test_the_commands_work_in_their_order(document: Path, pair: Pair) -> None:
    shell = Shell(pair)
    for block in _of(document, "sh", "json"):
        if block.language == "json":
            shell.check_json(block.text)
        for command in commands(block) if block.language == "sh" else ():
            shell.run(command)


@_having("python")
async def test_the_python_code_works_from_top_to_bottom(document: Path, pair: Pair) -> None:
    await run_blocks(_of(document, "python"), pair)


@_having("java")
def test_the_java_programs_compile_and_run(document: Path, pair: Pair, java_stubs: Stubs) -> None:
    for block in _of(document, "java"):
        found = re.search(r"^public (?:final )?class (\w+)", block.text, re.MULTILINE)
        assert found, f"{block.place}: a java block is a whole program: one public class with a main method"
        source = pair.folder / f"{found[1]}.java"
        source.write_text(pair.placed(block.text))
        java_stubs.compile([source], pair.folder)
        java_stubs.run(pair.folder, found[1])


@_having("js")
def test_the_node_programs_run(document: Path, pair: Pair) -> None:
    (pair.folder / "node_modules").symlink_to(node_modules(ROOT / "examples" / "node-check"))
    (pair.folder / "protos").symlink_to(ROOT / "protos")
    for block in _of(document, "js"):
        program = pair.folder / "program.mjs"
        program.write_text(pair.placed(block.text))
        run_node(program, pair.folder)


@_having("auth")
def test_the_token_files_are_understood(document: Path, tmp_path: Path) -> None:
    for block in _of(document, "auth"):
        path = tmp_path / "tokens"
        path.write_text(block.text)
        assert read_tokens(path), block.place
