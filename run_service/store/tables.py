"""The tables of RunService.

`diagnosis_run` may belong to an older application that goes on writing it, so it has exactly the columns and
indexes that this application knows; whatever else runs need lives in tables of our own, named `sba_…`. Our
tables refer to a run by `diagnosis_run.id`: joining them on strings could meet two collations and scan.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, SmallInteger, String, Table, Text

from common.database import BIG_ID, LONG_TEXT, ROW_TIME, JsonText, Schema, UtcDateTime, id_string

metadata = MetaData()

diagnosis_run = Table(
    "diagnosis_run",
    metadata,
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("run_id", id_string(64), nullable=False, unique=True),
    Column("session_id", id_string(64), nullable=False),
    Column("query", Text, nullable=False),
    Column("status", String(16)),
    Column("agent_flow", String(32)),
    Column("answer", LONG_TEXT),
    Column("intent", String(32)),
    Column("release_outcome", String(16)),
    Column("published_result", JsonText),
    Column("self_evaluation", JsonText),  # history of the older application: never written, never read
    Column("feedback", String(16)),
    Column("total_duration_ms", Integer),
    Column("total_token_count", Integer),
    Column("step_count", Integer),
    Column("tool_call_count", Integer),
    Column("created_at", ROW_TIME, nullable=False),
    Column("updated_at", ROW_TIME, nullable=False),
    Index("idx_diagnosis_run_session_created", "session_id", "created_at", "id"),
    Index("idx_diagnosis_run_session_run", "session_id", "run_id"),
    Index("idx_diagnosis_run_status", "status"),
    Index("idx_diagnosis_run_agent_flow", "agent_flow"),
    sqlite_autoincrement=True,
)

run_control = Table(
    "sba_run_control",
    metadata,
    Column("run_pk", BigInteger, primary_key=True, autoincrement=False),  # diagnosis_run.id
    Column("head_seq", BigInteger, nullable=False),  # seq of the newest event
    Column("lease_us", BigInteger, nullable=False),  # the run's own lease, in microseconds
    Column("lease_expire_at", UtcDateTime),  # NULL on final runs
    Column("trace_id", id_string(32)),
    Column("error_code", id_string(64)),
    Column("start_time", UtcDateTime),
    Column("finish_time", UtcDateTime),
    Column("content_fingerprint", id_string(64), nullable=False),  # what CreateRun was given
    Column("finish_fingerprint", id_string(64)),  # what FinishRun was given, if that is what ended the run
    Index("idx_sba_run_control_lease", "lease_expire_at"),
)
"""One row for each run that this service created. A run without one is unmanaged: read, never moved."""

run_request = Table(
    "sba_run_request",
    metadata,
    Column("session_id", id_string(64), primary_key=True),
    Column("request_id", id_string(64), primary_key=True),
    Column("run_id", id_string(64), nullable=False),
    Column("fingerprint", id_string(64), nullable=False),
    Column("claim", id_string(32), nullable=False),  # of the call that stored the row
)
"""The idempotency keys of CreateRun."""

run_event = Table(
    "sba_run_event",
    metadata,
    Column("run_pk", BigInteger, primary_key=True, autoincrement=False),  # diagnosis_run.id
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", id_string(64)),  # NULL on events that the service writes
    Column("fingerprint", id_string(64)),
    Column("type", SmallInteger, nullable=False),  # number of superbizagent.run.v1.RunEventType
    Column("step_id", BigInteger),
    Column("step_code", id_string(64)),
    Column("tool_call_id", id_string(64)),
    Column("tool_name", id_string(64)),
    Column("status", id_string(32)),
    Column("evidence_status", id_string(20)),
    Column("error_code", id_string(64)),
    Column("intent", SmallInteger),  # number of superbizagent.run.v1.RunIntent
    Column("release_outcome", SmallInteger),  # number of superbizagent.run.v1.ReleaseOutcome
    Column("duration_ms", Integer),
    Column("input_token_count", Integer),
    Column("output_token_count", Integer),
    Column("result_bytes", Integer),
    Column("occur_time", UtcDateTime),
    Column("record_time", UtcDateTime, nullable=False),
    # The idempotency key of AppendRunEvents. No table of its own is needed: the run's lock is held whenever
    # it is looked up or written. NULLs do not collide.
    Index("uk_sba_run_event_event_id", "run_pk", "event_id", unique=True),
)
"""The event log. Rows of a run are inserted under its lock, so seq has no hole and follows the commits."""

_FINISH_BYTES = 5 * 1024 * 1024
"""An answer and a published result of 1 MiB each, every character of them escaped, and the rest."""

SCHEMA = Schema("run", 1, metadata, shared="diagnosis_run", statement_bytes=_FINISH_BYTES)
