"""Databases that hold many rows already, kept in the system's temporary folder for the next time.

The first 10,000 rows of each kind are inserted, the others copied inside the database: the same rows under
other ids, with as many calls and events for each run.
"""

import time

from benchmarks import ready_made, servers
from benchmarks.engines import DatabaseHost, Sql
from benchmarks.raw_rows import KEY_COLUMNS, ROW_COLUMNS, key_row, tool_row
from benchmarks.stage import say

FIRST = 10_000
"""Rows of each kind that are inserted one by one: 100 calls and 100 events of 100 runs."""

_RUNS = _EACH = 100
_MINE = "c" * 32  # the claim of keys that were loaded
_FIRST_RUN = "run-00000000-"
_TIME = "2026-01-01 00:00:00"
_EVENT = "run_pk, seq, event_id, fingerprint, type, step_id, tool_call_id, tool_name, status, record_time"
_RUN = "id, run_id, session_id, query, status, agent_flow, created_at, updated_at"
_CONTROL = "run_pk, head_seq, lease_us, content_fingerprint"


def loaded(host: DatabaseHost, rows: int) -> str:
    """The URL of a database with so many audit rows and so many events; a multiple of FIRST."""
    url = host.database(f"sba_bench_{rows}")
    servers.migrate(url)
    sql = Sql(url)
    _clear(sql, rows)
    if (sql.count("tool_invocation"), sql.count("sba_run_event")) != (rows, rows):
        say(f"loading {rows:,} audit rows and {rows:,} events")
        begin = time.monotonic()
        _load(sql, rows)
        say(f"loaded in {time.monotonic() - begin:.0f} s; they stay for the next time")
    sql.close()
    return url


def runs_of(rows: int, count: int) -> list[str]:
    """The run_ids of so many runs, spread over all that are there."""
    copies = rows // FIRST
    return [_run_id(at * copies // count, at % _RUNS + 1) for at in range(count)]


def _run_id(copy: int, run: int) -> str:
    return ready_made.run_id(run).replace(_FIRST_RUN, f"run-{copy:08x}-")


def _clear(sql: Sql, rows: int) -> None:
    """Take away what measurements have added."""
    sql.rows("DELETE FROM tool_invocation WHERE id > ?", (rows,))
    sql.rows("DELETE FROM sba_tool_invocation_key WHERE claim <> ?", (_MINE,))
    for table, key in (("sba_run_event", "run_pk"), ("sba_run_control", "run_pk"), ("diagnosis_run", "id")):
        sql.rows(f"DELETE FROM {table} WHERE {key} > ?", (rows // _EACH,))


def _load(sql: Sql, rows: int) -> None:
    for table in ("tool_invocation", "sba_tool_invocation_key", "sba_run_event", "sba_run_control"):
        sql.rows(f"DELETE FROM {table}")
    sql.rows("DELETE FROM diagnosis_run")
    sql.begin()
    _insert_first(sql)
    sql.commit()
    for copy in range(1, rows // FIRST):
        sql.begin()
        _copy(sql, copy)
        sql.commit()
    analyze = "ANALYZE" if sql.is_sqlite else "ANALYZE TABLE tool_invocation, sba_run_event, diagnosis_run"
    sql.rows(analyze)


def _insert_first(sql: Sql) -> None:
    calls = [(at % _RUNS + 1, f"old-{at}") for at in range(FIRST)]
    made = [(at + 1, *tool_row(*call)) for at, call in enumerate(calls)]
    sql.insert("tool_invocation", ("id", *ROW_COLUMNS), made)
    keys = [key_row(*call, at + 1) for at, call in enumerate(calls)]
    sql.insert("sba_tool_invocation_key", KEY_COLUMNS, keys)
    runs = range(1, _RUNS + 1)
    ended = [
        (run, _run_id(0, run), f"sess-{run}", "q", "SUCCESS", "CHAT_HARNESS", _TIME, _TIME) for run in runs
    ]
    sql.insert("diagnosis_run", _RUN.split(", "), ended)
    sql.insert("sba_run_control", _CONTROL.split(", "), [(run, _EACH, 300_000_000, "0" * 64) for run in runs])
    events = [
        (run, seq, f"old-{run}-{seq}", "0" * 64, 8, 1, f"call-{seq}", "query_logs", "READY", _TIME)
        for run in runs
        for seq in range(1, _EACH + 1)
    ]
    sql.insert("sba_run_event", _EVENT.split(", "), events)


def _copy(sql: Sql, copy: int) -> None:
    """The first rows once more, under other ids."""
    run_id = f"REPLACE(run_id, '{_FIRST_RUN}', 'run-{copy:08x}-')"
    session_id = f"REPLACE(session_id, 'sess-', 'sess-{copy:x}-')"
    rows = ", ".join(ROW_COLUMNS)
    copied = rows.replace("session_id", session_id).replace("run_id", run_id)
    sql.rows(
        f"INSERT INTO tool_invocation (id, {rows}) "
        f"SELECT id + ?, {copied} FROM tool_invocation WHERE id <= ?",
        (copy * FIRST, FIRST),
    )
    sql.rows(
        f"INSERT INTO sba_tool_invocation_key ({', '.join(KEY_COLUMNS)}) SELECT {run_id}, tool_call_id, "
        "fingerprint, claim, invocation_id + ?, created_at FROM sba_tool_invocation_key WHERE run_id < ?",
        (copy * FIRST, _run_id(1, 0)),
    )
    further = _RUN.replace("session_id", session_id).replace("run_id", run_id).replace("id, ", "id + ?, ", 1)
    sql.rows(
        f"INSERT INTO diagnosis_run ({_RUN}) SELECT {further} FROM diagnosis_run WHERE id <= ?",
        (copy * _RUNS, _RUNS),
    )
    for table, columns in (("sba_run_control", _CONTROL), ("sba_run_event", _EVENT)):
        further = columns.replace("run_pk", "run_pk + ?", 1)
        sql.rows(
            f"INSERT INTO {table} ({columns}) SELECT {further} FROM {table} WHERE run_pk <= ?",
            (copy * _RUNS, _RUNS),
        )
