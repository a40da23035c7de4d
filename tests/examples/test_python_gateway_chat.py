"""examples/python-gateway: questions, and browsers that come and go."""

import pytest

from chat_gateway import Settings
from superbizagent.run.v1.run_pb2 import RunStatus
from tests.client.proxy import Proxy
from tests.conftest import StartRunProcess
from tests.examples.conftest import Puppet, StartGateway, serve_gateway
from tests.support.run import get_run, until_ended
from tests.support.run_server import RunServer
from tests.support.stream import open_streams
from tests.support.waiting import until


async def test_a_question_brings_the_exact_run_its_events_and_the_published_answer(
    start_gateway: StartGateway, run_server: RunServer
) -> None:
    async with start_gateway() as browser, browser.ask("Why is the payment refused?") as page:
        await page.read_all()
    run = await get_run(run_server.stub, page.run_id, full=True)
    assert run.query == "Why is the payment refused?"
    assert page.seqs == list(range(1, run.last_seq + 1))
    last = page.received[-1]
    assert last.event == "answer"
    assert last.data["status"] == "SUCCESS"
    assert last.data["answer"] == run.answer
    assert "GATEWAY_TIMEOUT" in run.answer
    assert last.data["publishedResult"] == {"codes": ["CARD_DECLINED", "GATEWAY_TIMEOUT"], "logLines": 5}


async def test_a_question_that_nothing_answers_falls_back(start_gateway: StartGateway) -> None:
    async with start_gateway() as browser, browser.ask("Is there life on Mars?") as page:
        await page.read_all()
    assert page.received[-1].data["status"] == "FALLBACK"


async def test_a_cut_after_each_event_leaves_neither_gap_nor_repeat(start_gateway: StartGateway) -> None:
    async with start_gateway() as browser:
        async with browser.ask() as page:
            await page.read_all()
        whole = page.seqs
        for last in range(len(whole) + 1):
            async with browser.come_back(page.run_id, last) as rest:
                await rest.read_all()
            assert whole[:last] + rest.seqs == whole
            assert rest.received[-1] == page.received[-1]


async def test_a_browser_that_comes_back_to_a_running_run_gets_each_event_once(
    start_gateway: StartGateway, puppet: Puppet
) -> None:
    async with start_gateway(puppet) as browser:
        async with browser.ask() as first:
            await first.read(seq=2)
        async with browser.come_back(first.run_id, 2) as second:
            await second.read(seq=3)
            puppet.go.set()
            await second.read_all()
    assert first.seqs + second.seqs == [1, 2, 3, 4, 5]
    assert second.received[-1].data["answer"] == "done"


async def test_a_closed_browser_does_not_end_the_run(
    start_gateway: StartGateway, puppet: Puppet, run_server: RunServer
) -> None:
    async with start_gateway(puppet) as browser:
        async with browser.ask() as page:
            await page.read(seq=3)
        await until(lambda: not len(open_streams(run_server)))  # nothing is sent to nobody
        puppet.go.set()
        run = await until_ended(run_server.stub, page.run_id)
    assert run.status == RunStatus.RUN_STATUS_SUCCESS


async def test_a_closed_browser_ends_the_run_if_it_asked_for_that(
    start_gateway: StartGateway, puppet: Puppet, run_server: RunServer
) -> None:
    async with start_gateway(puppet) as browser:
        async with browser.ask(cancelOnDisconnect=True) as page:
            await page.read(seq=3)
        run = await until_ended(run_server.stub, page.run_id)
        await puppet.stopped.wait()
    assert run.status == RunStatus.RUN_STATUS_CANCELLED
    assert run.error_code == "CLIENT_CLOSED"


async def test_a_browser_that_saw_the_end_cancels_nothing(
    start_gateway: StartGateway, run_server: RunServer
) -> None:
    async with start_gateway() as browser, browser.ask(cancelOnDisconnect=True) as page:
        await page.read("answer")
    assert (await get_run(run_server.stub, page.run_id)).status == RunStatus.RUN_STATUS_SUCCESS


async def test_a_question_that_is_asked_twice_is_one_run_and_is_worked_on_once(
    start_gateway: StartGateway, puppet: Puppet
) -> None:
    async with (
        start_gateway(puppet) as browser,
        browser.ask(requestId="question-1") as first,
        browser.ask(requestId="question-1") as second,
    ):
        await first.read(seq=3)
        puppet.go.set()
        await first.read_all()
        await second.read_all()
    assert first.received == second.received
    assert puppet.begun == 1


async def test_a_gateway_that_stops_says_what_became_of_its_runs(
    start_gateway: StartGateway, puppet: Puppet, run_server: RunServer
) -> None:
    async with start_gateway(puppet) as browser, browser.ask() as page:
        await page.read(seq=3)
    run = await get_run(run_server.stub, page.run_id)
    assert run.status == RunStatus.RUN_STATUS_CANCELLED
    assert run.error_code == "RUN_CANCELLED"


@pytest.mark.timeout(120)  # two processes are started
async def test_a_restart_of_the_service_in_the_middle_is_not_noticed(
    start_run_process: StartRunProcess, audit_address: str, puppet: Puppet
) -> None:
    server = await start_run_process()
    proxy = Proxy(int(server.address.rpartition(":")[2]))
    await proxy.start()
    async with (
        serve_gateway(Settings(proxy.address, audit_address), puppet) as browser,
        browser.ask() as page,
    ):
        await page.read(seq=3)
        server.terminate()
        assert await server.wait() == 0
        server = await start_run_process()
        proxy.target_port = int(server.address.rpartition(":")[2])
        puppet.go.set()
        await page.read_all()
    await proxy.aclose()
    assert page.seqs == [1, 2, 3, 4, 5]
    assert page.received[-1].data == {
        "status": "SUCCESS",
        "answer": "done",
        "publishedResult": None,
        "errorCode": None,
    }
