"""Links between the documents lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, documents, headings, prose

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("document", documents(), ids=lambda one: str(one.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    broken = []
    for target in _LINK.findall(prose(document)):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue  # the world outside is not tested
        to = (document.parent / path).resolve() if path else document
        if not to.exists() or (anchor and anchor not in headings(to)):
            broken.append(target)
    assert broken == []


def test_every_document_is_linked_from_another_one() -> None:
    linked = {
        (document.parent / target.partition("#")[0]).resolve()
        for document in documents()
        for target in _LINK.findall(prose(document))
        if "://" not in target
    }
    assert [one for one in documents() if one not in linked and one.name != "README.md"] == []


def test_every_file_that_is_named_in_code_type_exists() -> None:
    rooms = (
        "audit_service|cli|common|docs|protos|run_service|superbizagent_client|superbizagent_contract|tests"
    )
    named = re.compile(rf"`((?:{rooms})/[\w./]*)`")
    missing = [
        f"{document.name}: {path}"
        for document in documents()
        for path in named.findall(prose(document))
        if not (ROOT / path).exists()
    ]
    assert missing == []
