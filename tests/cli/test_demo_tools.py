"""The demo's tools: they search what is really there, and the database tool cannot write."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.demo import knowledge
from cli.demo.database_query import query_mysql
from cli.demo.knowledge import lookup_knowledge
from cli.demo.words_of_text import telling_words, words


@pytest.mark.parametrize("form", ["refused", "refuse", "refuses", "refusing", "refusal", "REFUSED"])
def test_forms_of_a_word_meet(form: str) -> None:
    assert telling_words(form) == telling_words("refuse")


def test_names_of_code_are_found_whole_and_by_their_parts() -> None:
    assert set(words("RUN_LEASE_SECONDS")) == {"run_lease_second", "run", "leas", "second"}
    assert telling_words("ERROR_REASON_TOOL_NOT_ALLOWED") == telling_words("TOOL_NOT_ALLOWED")


def test_common_words_tell_nothing() -> None:
    assert telling_words("why is it that we do not have any?") == []


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(knowledge, "ROOT", tmp_path)
    knowledge._passages.cache_clear()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "moon.md").write_text(
        "# The moon\n\nIt is made of cheese.\n\n```sh\nmake cheese\n```\n\n| a | b |\n|---|---|\n"
        "| `CHEESE_SECONDS` | how long it ripens |\n| `OTHER` | else |\n"
    )
    (tmp_path / "README.md").write_text("# Read me\n\nAsk `what is the moon made of?` and see.\n")
    yield tmp_path
    knowledge._passages.cache_clear()


async def test_the_docs_are_searched_and_a_page_that_shows_the_question_is_no_answer(docs: Path) -> None:
    outcome = await lookup_knowledge("what is the moon made of?")
    assert [passage.place for passage in outcome.result] == ["docs/moon.md The moon"]
    assert "cheese" in outcome.result[0].text
    assert outcome.evidence_status == "EVIDENCE_FOUND"


async def test_a_row_of_a_table_is_found_by_itself(docs: Path) -> None:
    found = (await lookup_knowledge("how long does CHEESE_SECONDS take?")).result
    assert found[0].text == "`CHEESE_SECONDS` | how long it ripens"


@pytest.mark.parametrize(
    "question", ["what is the weather in Paris?", "why?", "", "月亮", "\x00", "moon " * 3000 + "x y z w"]
)
async def test_a_question_about_something_else_finds_nothing_or_little(docs: Path, question: str) -> None:
    outcome = await lookup_knowledge(question)
    assert outcome.evidence_status in ("NO_EVIDENCE", "EVIDENCE_FOUND")
    assert ("moon" in question) or outcome.result == []


async def test_the_project_s_own_docs_know_the_reasons_of_refusals() -> None:
    for reason in ("TOOL_NOT_ALLOWED", "INVALID_FIELD", "CREDENTIAL_SHAPED", "UNKNOWN_FIELD"):
        found = (await lookup_knowledge(reason)).result
        assert any(reason in passage.place for passage in found)


async def test_the_database_tool_reads_and_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "a b?#%.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(150)])
    connection.close()
    outcome = await query_mysql(path, "SELECT x FROM t WHERE x >= ?", ["0"])
    assert len(outcome.result) == 0  # text is not a number in SQLite
    outcome = await query_mysql(path, "SELECT x FROM t")
    assert (len(outcome.result), outcome.is_truncated) == (100, True)
    for statement in ("DELETE FROM t", "DROP TABLE t", "INSERT INTO t VALUES (1)"):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await query_mysql(path, statement)
