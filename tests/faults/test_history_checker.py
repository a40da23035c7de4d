"""The judge of the fault tests accepts a true history and rejects each false one, for its own reason."""

import re
from pathlib import Path

import pytest

from tests.faults.history import checker
from tests.faults.history.checker import checked_counts, violations
from tests.faults.history.doctored import DOCTORED
from tests.faults.history.history import History, Outcome, read_journal
from tests.faults.history.sample import sample
from tests.faults.report import FaultReport


def test_a_true_history_is_accepted() -> None:
    history, stored = sample()
    assert violations(history, stored) == []
    counts = checked_counts(history, stored)
    assert (counts["acknowledged writes"], counts["events"], counts["audit rows"]) == (20, 14, 3)


@pytest.mark.parametrize("what", DOCTORED)
def test_a_false_history_is_rejected_for_its_own_reason(what: str, fault_report: FaultReport) -> None:
    rule, doctor = DOCTORED[what]
    history, stored = sample()
    doctor(history, stored)
    assert rule in {one.rule for one in violations(history, stored)}
    fault_report.row("doctored histories and rows", "rejected by the judge", 1)


def test_every_promise_of_the_judge_is_broken_once() -> None:
    checks = Path(checker.__file__).parent.glob("check_*.py")
    promises = {
        found for path in checks for found in re.findall(r'Violation\(\s*"([^"]+)"', path.read_text())
    }
    assert promises == {rule for rule, _ in DOCTORED.values()}


def test_what_a_killed_process_knew_is_read_from_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with path.open("w", encoding="utf-8") as journal:
        history = History(journal=journal)
        told = history.begin("append", "run-1", "e1", events=[])
        untold = history.begin("start", "run-1", "run-1")
        history.end(told, Outcome.ANSWERED, seqs=[1])
        journal.write('{"end": [1, 2.0, "answ')  # it died here
    read = read_journal(path)
    assert read[0] == told
    assert (read[1].key, read[1].outcome, read[1].ended) == (untold.key, Outcome.UNKNOWN, None)
