"""The tables of the audit.

`tool_invocation` belongs to a database that an older application may have created and filled and may still
write to: exactly these columns and indexes, never one more. Lengths are those of its migrations; each is at
least the limit that the contract sets for what goes in.
"""

from sqlalchemy import CHAR, BigInteger, Boolean, Column, Index, Integer, MetaData, String, Table, Text

from common.database import BIG_ID, ROW_TIME, JsonText, Schema, UtcDateTime, id_string

_metadata = MetaData()

tool_invocation = Table(
    "tool_invocation",
    _metadata,
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("session_id", id_string(64), nullable=False),
    Column("run_id", id_string(64)),
    Column("step_id", BigInteger),
    Column("tool_name", id_string(64), nullable=False),
    Column("input_params", JsonText(), nullable=False),
    Column("output_preview", Text),
    Column("output_length", Integer),
    Column("retrieval_layer", String(8)),
    Column("l0_match_count", Integer),
    Column("l1_match_count", Integer),
    Column("is_truncated", Boolean),
    Column("relevance_level", String(20)),
    Column("dedup_reason", String(32)),
    Column("retrieval_details", JsonText()),
    Column("duration_ms", Integer),
    Column("success", Boolean),
    Column("error_message", Text),
    Column("created_at", ROW_TIME, nullable=False),
    Index("idx_session_id", "session_id"),
    Index("idx_tool_invocation_run_id", "run_id", "id"),
    Index("idx_tool_name", "tool_name"),
    Index("idx_retrieval_layer", "retrieval_layer"),
    # An id that was given is never given again, as on the other engines: a page token stands on it.
    sqlite_autoincrement=True,
)

tool_invocation_key = Table(
    "sba_tool_invocation_key",
    _metadata,
    Column("run_id", id_string(64), primary_key=True),
    Column("tool_call_id", id_string(64), primary_key=True),
    Column("fingerprint", CHAR(64), nullable=False),
    # The batch that inserted this key: whoever reads its own claim back has to write the row.
    Column("claim", CHAR(32), nullable=False),
    # NULL only inside the transaction that claimed the key.
    Column("invocation_id", BigInteger),
    Column("created_at", UtcDateTime(), nullable=False),
)

_BATCH_BYTES = 2 * 1024 * 1024
"""1,000 rows and keys, which go to the server together."""

AUDIT_SCHEMA = Schema("audit", 1, _metadata, shared="tool_invocation", statement_bytes=_BATCH_BYTES)
