"""The checker over contracts that nobody thought of: what is hidden in them is found, and nothing else."""

from typing import Any, NamedTuple

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from common.contract_check import DescriptorError, breaches_of, contract_digest, foreign_file, services_in
from superbizagent_contract import STRING_FIELDS
from superbizagent_contract.metadata_only import BODY_WORDS, HARMLESS_NAMES, TEXT_FIELDS
from tests.contract import doctored as d
from tests.contract.descriptors import AUDIT_SERVICE, RUN_SERVICE
from tests.contract.doctored import AUDIT, EVENT, INVOCATION, RUN_RPCS, F


class Holder(NamedTuple):
    """A message in which an addition begins, and the package of its file."""

    file: str
    message: str
    package: str


class Field(NamedTuple):
    """What is known of a field that is put in; `type_name` only where it is a message."""

    name: str
    kind: "F.Type.ValueType"
    label: "F.Label.ValueType" = F.LABEL_OPTIONAL


HOLDERS = [
    Holder(AUDIT, "ListByRunResponse", "superbizagent.audit.v1"),
    Holder(AUDIT, "SearchToolInvocationsRequest", "superbizagent.audit.v1"),
    Holder(INVOCATION, "ToolInvocationInput", "superbizagent.audit.v1"),
    Holder(EVENT, "RunEvent", "superbizagent.run.v1"),
    Holder(RUN_RPCS, "AppendRunEventsRequest", "superbizagent.run.v1"),
]

_NUMBERS = [F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT32, F.TYPE_UINT64, F.TYPE_BOOL, F.TYPE_DOUBLE]
_WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=8).filter(
    lambda word: word not in BODY_WORDS
)
_FREE_NAMES = st.tuples(_WORDS, _WORDS).map(lambda words: f"new_{words[0]}_{words[1]}")
_KNOWN_STRINGS = sorted(
    name
    for name in STRING_FIELDS
    if name not in TEXT_FIELDS and not (BODY_WORDS & set(name.split("_")) and name not in HARMLESS_NAMES)
)

_ONE, _MANY = st.just(F.LABEL_OPTIONAL), st.just(F.LABEL_REPEATED)
_A_STRING = st.just(F.TYPE_STRING)

HARMLESS = st.one_of(
    st.builds(Field, _FREE_NAMES, st.sampled_from(_NUMBERS), _ONE),
    st.builds(Field, st.sampled_from(_KNOWN_STRINGS), _A_STRING, _ONE),
)
HARMFUL = st.one_of(
    st.builds(Field, _FREE_NAMES, st.just(F.TYPE_BYTES), _ONE),
    st.builds(Field, _FREE_NAMES, _A_STRING, _ONE),
    st.builds(Field, st.sampled_from(sorted(TEXT_FIELDS)), _A_STRING, _ONE),
    st.builds(Field, st.sampled_from(sorted(BODY_WORDS)), st.sampled_from([*_NUMBERS, F.TYPE_STRING]), _ONE),
    st.builds(Field, _FREE_NAMES, st.sampled_from([*_NUMBERS, F.TYPE_STRING]), _MANY),
    st.builds(Field, st.sampled_from(_KNOWN_STRINGS), _A_STRING, _MANY),
)


def put(message: DescriptorProto, fields: list[Field]) -> None:
    """Add fields to a message; of two with one name the first stays."""
    there = {field.name for field in message.field}
    for number, field in enumerate(fields, start=900):
        if field.name not in there:
            there.add(field.name)
            message.field.add(name=field.name, number=number, type=field.kind, label=field.label)


def chained(holder: Holder, levels: list[list[Field]]) -> d.Doctor:
    """A doctor that hangs new messages below the holder, each inside the one before it."""

    def change(changed: d.Files) -> None:
        file = changed[holder.file]
        above = d.message(file, holder.message)
        for depth, fields in enumerate(levels):
            name = f"Fuzzed{depth}"
            above.field.add(
                name=f"fuzzed_{depth}",
                number=800,
                type=F.TYPE_MESSAGE,
                label=F.LABEL_REPEATED if depth % 2 else F.LABEL_OPTIONAL,
                type_name=f".{holder.package}.{name}",
            )
            above = file.message_type.add(name=name)
            put(above, fields)

    return change


LEVELS = st.lists(st.lists(HARMLESS, max_size=4), min_size=1, max_size=4)


@given(st.sampled_from(HOLDERS), LEVELS)
def test_metadata_is_admitted_at_any_depth(holder: Holder, levels: list[list[Field]]) -> None:
    assert breaches_of(d.doctored(chained(holder, levels))) == []


@given(st.sampled_from(HOLDERS), LEVELS, HARMFUL, st.data())
def test_what_can_hold_a_body_is_found_at_any_depth(
    holder: Holder, levels: list[list[Field]], harmful: Field, data: st.DataObject
) -> None:
    depth = data.draw(st.integers(0, len(levels) - 1))
    levels[depth] = [harmful, *levels[depth]]
    places = {breach.place for breach in breaches_of(d.doctored(chained(holder, levels)))}
    assert places == {f"{holder.package}.Fuzzed{depth}.{harmful.name}"}


_ORIGINALS = {name: file.SerializeToString() for name, file in d.files().items()}


@given(st.data())
def test_files_of_a_hostile_server_are_judged_or_refused(data: st.DataObject) -> None:
    """Each of its bytes may be anything; the checker says what is wrong and never fails in another way."""
    changed: list[FileDescriptorProto] = []
    for raw in _ORIGINALS.values():
        spoilt = bytearray(raw)
        for at in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=2)):
            spoilt[at] = data.draw(st.integers(0, 255))
        file = foreign_file(bytes(spoilt))
        if file is not None:
            changed.append(file)
    try:
        services = services_in(changed, [RUN_SERVICE.full_name, AUDIT_SERVICE.full_name])
    except DescriptorError:
        return
    assert all(breach.rule for breach in breaches_of(services))
    assert len(contract_digest(services)) == 64


def test_a_name_that_is_no_utf_8_is_refused_when_it_comes_in() -> None:
    for at, byte in enumerate(_ORIGINALS[EVENT]):
        if chr(byte) == "g":  # of names, deep inside and on top
            raw = _ORIGINALS[EVENT][:at] + b"\x80" + _ORIGINALS[EVENT][at + 1 :]
            assert foreign_file(raw) is None


def test_the_fields_that_are_put_in_are_really_there() -> None:
    """Otherwise the tests above would find nothing because there is nothing."""

    def seen(doctor: d.Doctor) -> Any:
        return [
            field.name
            for service in d.doctored(doctor)
            for file in [service.file, *service.file.dependencies]
            for name, message in file.message_types_by_name.items()
            if name == "Fuzzed0"
            for field in message.fields
        ]

    one = Field("new_thing", FieldDescriptorProto.TYPE_BYTES)
    for holder in HOLDERS:
        assert "new_thing" in seen(chained(holder, [[one]])), holder
