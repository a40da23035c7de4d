"""What an error of the server means is known by its number; its text never comes along."""

from typing import Any

import pytest

from common.database import Database
from tests.support.database_faults import Faulty, in_use

AWAY = [1040, 1053, 1203, 1226, 1290, 1836, 1792, 1045, 1049, 1146, 1021, 1114, 1129, 1152, 1159, 1317, 3169]
AWAY += [2006, 2013]


@pytest.mark.parametrize("number", AWAY)
async def test_whatever_keeps_the_server_from_answering_is_unavailable(faulty: Faulty, number: int) -> None:
    database = Database(faulty.url, 1)
    signal = f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'secret'"
    for work in (database.read, database.write):
        refusal = await _refusal_of(work(lambda connection: connection.exec_driver_sql(signal)))
        assert (refusal.args, refusal.__context__) == (("ERROR_REASON_STORE_UNAVAILABLE",), None)
    assert in_use(database) == 0
    await database.close()


@pytest.mark.parametrize("number", [1205, 1213, 3572])
async def test_a_conflict_is_tried_again_and_in_the_end_told_as_such(faulty: Faulty, number: int) -> None:
    database = Database(faulty.url, 1)
    signal = f"SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'secret'"
    attempts = 0

    async def work(connection: Any) -> int:
        nonlocal attempts
        attempts += 1
        if attempts != 3 and attempts < 10:
            await connection.exec_driver_sql(signal)
        return attempts

    assert await database.write(work) == 3
    attempts = 4
    refusal = await _refusal_of(database.write(work))
    assert refusal.args == ("ERROR_REASON_STORE_CONFLICT",)
    assert attempts == 9
    await database.close()


async def _refusal_of(call: Any) -> Exception:
    try:
        await call
    except Exception as error:  # noqa: BLE001 - the test looks at what it is
        return error
    raise AssertionError("the call succeeded")
