"""What each role may call of RunService. An operator may call everything, others only what is here."""

from typing import Any

from common.server import RoleTable, any_request
from superbizagent.run.v1.run_pb2 import RunView


def _basic_view(request: Any) -> bool:
    return request.view in (RunView.RUN_VIEW_UNSPECIFIED, RunView.RUN_VIEW_BASIC)


def _one_session(request: Any) -> bool:
    return bool(request.session_id)


_GATEWAY = {"gateway": any_request}

ROLES: RoleTable = {
    "CreateRun": _GATEWAY,
    "StartRun": _GATEWAY,
    "AppendRunEvents": _GATEWAY,
    "RenewRunLease": _GATEWAY,
    "FinishRun": _GATEWAY,
    "CancelRun": _GATEWAY,
    "RecordFeedback": _GATEWAY,
    "GetRun": {"gateway": any_request, "trace": _basic_view},
    "GetLatestRun": {"gateway": any_request, "trace": _basic_view},
    "ListRuns": {"gateway": _one_session, "trace": _one_session},
    "ListRunEvents": {"gateway": any_request, "trace": any_request},
    "StreamRunEvents": {"gateway": any_request, "trace": any_request},
}
