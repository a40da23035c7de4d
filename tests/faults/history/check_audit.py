"""Audit rows: each acknowledged one is there, each key once, row and key together or neither."""

from collections import defaultdict
from collections.abc import Iterator

from tests.faults.history.facts import Invocation
from tests.faults.history.history import Call, History, by_run, invocations_given
from tests.faults.history.stored import Stored, StoredRow
from tests.faults.history.violation import Violation

Key = tuple[str, str]


def check_audit(history: History, stored: Stored) -> Iterator[Violation]:
    """What holds of the audit of all runs."""
    calls = list(history.of_kind("record"))
    yield from _acknowledged(calls, {row.id: row for row in stored.rows})
    yield from _answers(calls)
    yield from _rows(calls, stored)
    yield from _summaries(history.of_kind("summary"), by_run(calls), stored)


def _acknowledged(calls: list[Call], rows: dict[int, StoredRow]) -> Iterator[Violation]:
    for call in calls:
        if not call.answered:
            continue
        ids = call.answer["ids"]
        given = invocations_given(call)
        if len(ids) != len(given):
            yield Violation("an acknowledged record is there", call.run_id, f"{len(ids)} of {len(given)}")
        for row_id, invocation in zip(ids, given, strict=False):
            row = rows.get(row_id)
            if row is None or (row.run_id, row.given.tool_call_id) != (call.run_id, invocation.tool_call_id):
                yield Violation("an acknowledged record is there", call.run_id, f"{row_id}")


def _answers(calls: list[Call]) -> Iterator[Violation]:
    ids: dict[Key, set[int]] = defaultdict(set)
    firsts: dict[Key, int] = defaultdict(int)
    for call in calls:
        if not call.answered:
            continue
        answers = zip(invocations_given(call), call.answer["ids"], call.answer["duplicates"], strict=False)
        for invocation, row_id, duplicate in answers:
            key = (call.run_id, invocation.tool_call_id)
            ids[key].add(row_id)
            firsts[key] += not duplicate
    for key, found in ids.items():
        if len(found) > 1:
            yield Violation("one key has one row", key[0], f"{key[1]}: answered {sorted(found)}")
        if firsts[key] > 1:
            yield Violation("one record is the first", key[0], key[1])


def _rows(calls: list[Call], stored: Stored) -> Iterator[Violation]:
    sent: dict[Key, Invocation] = {
        (call.run_id, one.tool_call_id): one for call in calls for one in invocations_given(call)
    }
    by_key: dict[Key, list[int]] = defaultdict(list)
    for row in stored.rows:
        key = (row.run_id, row.given.tool_call_id)
        by_key[key].append(row.id)
        if key not in sent:
            yield Violation("no record that nobody sent", row.run_id, f"{row.given}")
        elif sent[key] != row.given:
            yield Violation("a record is what was sent", row.run_id, f"{row.given}")
    for key, ids in by_key.items():
        if len(ids) > 1:
            yield Violation("one key has one row", key[0], f"{key[1]}: rows {ids}")
    for key in by_key.keys() | stored.keys.keys():
        if stored.keys.get(key) not in by_key.get(key, ()):
            yield Violation("a record is there whole or not at all", key[0], key[1])


def _summaries(
    summaries: Iterator[Call], records: dict[str, list[Call]], stored: Stored
) -> Iterator[Violation]:
    """A summary counts what was acknowledged before it, and nothing that is not there."""
    rows: dict[str, int] = defaultdict(int)
    for row in stored.rows:
        rows[row.run_id] += 1
    for call in summaries:
        if call.answered:
            least = _acknowledged_before(records.get(call.run_id, []), call)
            if not least <= call.answer["calls"] <= rows[call.run_id]:
                told = f"{call.answer['calls']} of {least} to {rows[call.run_id]}"
                yield Violation("a summary equals the rows", call.run_id, told)


def _acknowledged_before(records: list[Call], read: Call) -> int:
    earlier = [call for call in records if call.answered and call.before(read)]
    return len({one.tool_call_id for call in earlier for one in invocations_given(call)})
