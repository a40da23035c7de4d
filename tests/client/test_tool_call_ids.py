"""The id rule of tool calls, for every id that a framework may think of."""

import hashlib
import re

from hypothesis import given
from hypothesis import strategies as st

from superbizagent_client import ToolCallIds
from superbizagent_contract import kinds

UUID_ID = re.compile(r"tc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DERIVED_ID = re.compile(r"tc-[0-9a-f]{32}-[1-9][0-9]*")

framework_ids = st.one_of(
    st.none(),
    st.just(""),
    st.integers(0, 3).map(lambda number: f"call_{number}"),  # numbered per turn
    st.text(),
    st.text(st.characters(codec=None), max_size=10),  # lone surrogates, emoji
    st.text("ab-._:", min_size=1, max_size=64),
    st.text("abc", min_size=65, max_size=400),
    st.from_regex(r"eyJ[a-z]{3}\.eyJ[a-z]{3}\.[a-z]{3}", fullmatch=True),
    st.from_regex(r"call_[a-z]{3}\|sig=[A-Za-z0-9+/=]{20,80}", fullmatch=True),
)


@given(st.lists(framework_ids, max_size=40))
def test_ids_fit_the_grammar_and_are_unique_in_their_run(sent: list[str | None]) -> None:
    ids = ToolCallIds()
    assigned = [ids.assign(framework_id) for framework_id in sent]
    assert all(kinds.IDENTIFIER.admits(tool_call_id) for tool_call_id in assigned)
    assert len(set(assigned)) == len(assigned)


@given(st.lists(framework_ids, max_size=40))
def test_an_id_follows_the_rule_of_the_contract(sent: list[str | None]) -> None:
    ids, used = ToolCallIds(), set[str]()
    for ordinal, framework_id in enumerate(sent, start=1):
        assigned = ids.assign(framework_id)
        if not framework_id:
            assert UUID_ID.fullmatch(assigned)
        elif kinds.IDENTIFIER.admits(framework_id) and framework_id not in used:
            assert assigned == framework_id
        else:
            digest = hashlib.sha256(framework_id.encode("utf-8", "surrogatepass")).hexdigest()
            assert assigned == f"tc-{digest[:32]}-{ordinal}"
        used.add(assigned)


@given(st.lists(st.tuples(framework_ids, st.integers(0, 5)), max_size=40))
def test_a_call_that_is_tried_again_keeps_its_id(attempts: list[tuple[str | None, int]]) -> None:
    ids, first = ToolCallIds(), dict[int, str]()
    for framework_id, key in attempts:
        assigned = ids.assign(framework_id, attempt_key=key)
        assert first.setdefault(key, assigned) == assigned
    assert len(set(first.values())) == len(first)


def test_ids_numbered_per_turn_stay_readable_the_first_time_and_differ_after() -> None:
    ids = ToolCallIds()
    turns = [[ids.assign(f"call_{number}") for number in range(2)] for _ in range(3)]
    assert turns[0] == ["call_0", "call_1"]
    assert len({tool_call_id for turn in turns for tool_call_id in turn}) == 6
    assert [tool_call_id.rpartition("-")[2] for turn in turns[1:] for tool_call_id in turn] == [
        "3",
        "4",
        "5",
        "6",
    ]


def test_a_framework_that_sends_what_the_rule_would_derive_takes_no_other_calls_place() -> None:
    derived = ToolCallIds()
    derived.assign("call_0")
    twin = derived.assign("call_0")
    assert DERIVED_ID.fullmatch(twin)
    ids = ToolCallIds()
    taken = twin.removesuffix("-2") + "-3"
    assert [ids.assign("call_0"), ids.assign(taken)] == ["call_0", taken]
    assert UUID_ID.fullmatch(ids.assign("call_0"))


def test_a_long_id_and_one_that_looks_like_a_credential_are_hashed() -> None:
    for framework_id in (
        "x" * 400,
        "sk-" + "a1B2" * 10,
        "eyJhbGci.eyJzdWIi.c2ln",
        "call_🧪",
        "\ud800",
        " call_0",
    ):
        assert DERIVED_ID.fullmatch(ToolCallIds().assign(framework_id))
