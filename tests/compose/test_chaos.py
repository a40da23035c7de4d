"""The chaos of the compose stack judges what it is given; here nothing is disturbed."""

import asyncio

import pytest

from tests.compose import chaos
from tests.compose.pair import Addresses
from tests.faults.history import load


@pytest.fixture
def undisturbed(processes: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"run-service": list(processes.runs), "audit-service": list(processes.audits)}
    monkeypatch.setattr(chaos, "possible", addresses.__getitem__)
    monkeypatch.setattr(chaos, "DISTURBANCES", (chaos.Disturbance("nothing", lambda: None),))


@pytest.mark.usefixtures("undisturbed")
def test_services_that_keep_their_promises_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert asyncio.run(chaos.main()) == 0
    assert "differences: none" in capsys.readouterr().out


@pytest.mark.usefixtures("undisturbed")
def test_an_acknowledgement_without_a_row_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = load.Load.stop

    async def stop_and_forge(one: load.Load, seconds: float) -> None:
        await stop(one, seconds)
        told = next(call for call in one.history.of_kind("append") if call.answered)
        told.answer["seqs"] = [seq + 1000 for seq in told.answer["seqs"]]

    monkeypatch.setattr(load.Load, "stop", stop_and_forge)
    assert asyncio.run(chaos.main()) == 1
    assert "an acknowledged event is there" in capsys.readouterr().out
