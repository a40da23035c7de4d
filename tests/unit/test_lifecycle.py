"""The life of a run: the table is complete, and random walks over it obey an independent little model."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_service.lifecycle import (
    FINAL,
    FINISH,
    MANAGED,
    TRANSITIONS,
    Command,
    Decision,
    Status,
    Verdict,
    decide,
    is_final,
)

OPEN = {"PENDING", "RUNNING"}
EVERY_PAIR = list(itertools.product(Status, Command))


def _model(status: str, command: str) -> tuple[str, str]:
    """What the contract says, in its own words: the status afterwards, and what the caller is told."""
    name, _, outcome = command.partition(" ")
    if status not in OPEN:
        repeated = {"finish": "REPEAT", "cancel": "STAY" if status == "CANCELLED" else "ALREADY_FINISHED"}
        return status, repeated.get(name, "ALREADY_FINISHED")
    if name in ("cancel", "expire", "finish"):
        after = {"cancel": "CANCELLED", "expire": "FAILED"}.get(name, outcome)
        early = status == "PENDING" and after not in ("FAILED", "CANCELLED")
        return (status, "NOT_STARTED") if early else (after, "MOVE")
    if name == "start":
        return "RUNNING", "MOVE" if status == "PENDING" else "STAY"
    return status, "NOT_STARTED" if (name, status) == ("append", "PENDING") else "STAY"


def test_the_table_has_every_status_with_every_command_and_nothing_else() -> None:
    assert set(TRANSITIONS) == set(EVERY_PAIR)


@pytest.mark.parametrize(("status", "command"), EVERY_PAIR)
def test_the_table_says_what_the_contract_says(status: Status, command: Command) -> None:
    after, verdict = _model(status.value, command.value)
    assert decide(status, command) == Decision(Verdict[verdict], Status(after))


def test_only_a_move_changes_the_status() -> None:
    for (status, _), decision in TRANSITIONS.items():
        assert (decision.status != status) == (decision.verdict is Verdict.MOVE)


def test_no_command_leads_out_of_a_final_status() -> None:
    assert {decision.status for (status, _), decision in TRANSITIONS.items() if status in FINAL} == FINAL
    for (status, _), decision in TRANSITIONS.items():
        assert status not in FINAL or decision.status is status


def test_no_command_leads_back_to_pending() -> None:
    moves = {(status, decision.status) for (status, _), decision in TRANSITIONS.items()}
    assert not any(after is Status.PENDING for before, after in moves if before is not Status.PENDING)


def test_the_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[Status.PENDING, Command.START] = Decision(Verdict.STAY, Status.PENDING)  # type: ignore[index]
    with pytest.raises(TypeError):
        FINISH[Status.SUCCESS] = Command.CANCEL  # type: ignore[index]


def test_each_final_status_has_the_finish_command_of_its_name() -> None:
    assert set(FINISH) == FINAL
    assert all(command.value == f"finish {status}" for status, command in FINISH.items())


def test_managed_are_all_six() -> None:
    assert {status.value for status in MANAGED} == {
        *("PENDING", "RUNNING", "SUCCESS", "FALLBACK", "FAILED", "CANCELLED")
    }


@pytest.mark.parametrize("status", ["SUCCESS", "FALLBACK", "FAILED", "CANCELLED"])
def test_a_final_status_is_final(status: str) -> None:
    assert is_final(status)


@pytest.mark.parametrize("status", [None, "", "PENDING", "RUNNING", "success", "SUCCESS ", "DONE", "TIMEOUT"])
def test_a_missing_or_unknown_status_is_not_final(status: str | None) -> None:
    assert not is_final(status)


@given(st.lists(st.sampled_from(list(Command)), max_size=40))
def test_on_any_walk_a_run_gets_at_most_one_final_status_and_keeps_it(commands: list[Command]) -> None:
    status = Status.PENDING
    finals: list[Status] = []
    for command in commands:
        after, verdict = _model(status.value, command.value)
        decision = decide(status, command)
        assert (decision.status.value, decision.verdict.name) == (after, verdict)
        if decision.verdict is Verdict.MOVE and decision.status in FINAL:
            finals.append(decision.status)
        status = decision.status
        assert not finals or status is finals[0]
    assert len(finals) <= 1
