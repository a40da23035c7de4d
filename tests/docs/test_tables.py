"""Tables of the documents say what the code says; where they drifted, the failure prints the right table."""

import re

from common.log import ALLOWED_KEYS
from common.server.auth import ROLES
from common.settings import Settings
from superbizagent.audit.v1 import audit_service_pb2
from superbizagent.run.v1 import run_service_pb2
from tests.docs.markdown import ROOT, rows

OPERATIONS = ROOT / "docs" / "operations.md"
_NAME = re.compile(r"`([^`]+)`")


def _settings_table() -> list[list[str]]:
    shown = Settings().shown()
    table = []
    for name, field in Settings.model_fields.items():
        default = field.default
        # What a setting adds to a list is nothing by default, although the list itself is not empty.
        value = "" if default in (None, frozenset()) else shown[name.upper()]
        text = (
            str(value).lower()
            if isinstance(value, bool)
            else f"{value:g}"
            if isinstance(value, float)
            else value
        )
        meaning = str(field.description).replace("|", "\\|")
        table.append([f"`{name.upper()}`", f"`{text}`" if value != "" else "none", meaning])
    return table


def test_the_table_of_settings_is_that_of_the_code() -> None:
    wanted = _settings_table()
    right = "\n".join(f"| {' | '.join(row)} |" for row in wanted)
    assert rows(OPERATIONS, "## Settings") == wanted, f"the right rows are\n{right}"


def test_the_log_keys_are_those_of_the_code() -> None:
    named = [key for row in rows(OPERATIONS, "## Logs") for key in _NAME.findall(row[0])]
    assert sorted(named) == sorted(ALLOWED_KEYS)


def test_the_roles_are_those_of_the_code() -> None:
    named = [role for row in rows(OPERATIONS, "## Who may call") for role in _NAME.findall(row[0])]
    assert sorted(named) == sorted(ROLES)


def test_the_tables_of_rpcs_name_every_rpc_once() -> None:
    for module, service in ((run_service_pb2, "RunService"), (audit_service_pb2, "AuditService")):
        named = [rpc for row in rows(ROOT / "README.md", f"## {service}") for rpc in _NAME.findall(row[0])]
        assert named == [rpc.name for rpc in module.DESCRIPTOR.services_by_name[service].methods]


def test_the_folders_of_tests_are_those_that_exist() -> None:
    named = [
        name
        for row in rows(ROOT / "CONTRIBUTING.md", "## Which test goes where")
        for name in _NAME.findall(row[0])
    ]
    there = {f"tests/{path.parent.name}/" for path in (ROOT / "tests").glob("*/*.py")}
    assert sorted(named) == sorted(there)
