"""A database as the Java application left it: its tables, in the shapes of its migrations, with old rows."""

from tests.support.engines import run_sql

FLYWAY = (
    "CREATE TABLE flyway_schema_history (installed_rank INT PRIMARY KEY, version VARCHAR(50), "
    "description VARCHAR(200) NOT NULL, type VARCHAR(20) NOT NULL, script VARCHAR(1000) NOT NULL, "
    "checksum INT, installed_by VARCHAR(100) NOT NULL, installed_on TIMESTAMP NOT NULL DEFAULT NOW(), "
    "execution_time INT NOT NULL, success BOOLEAN NOT NULL)"
)

DIAGNOSIS_RUN = (
    "CREATE TABLE diagnosis_run (id BIGINT NOT NULL AUTO_INCREMENT, run_id VARCHAR(64) NOT NULL, "
    "session_id VARCHAR(64) NOT NULL, query TEXT NOT NULL, status VARCHAR(16), agent_flow VARCHAR(32), "
    "answer LONGTEXT, intent VARCHAR(32), release_outcome VARCHAR(16), published_result JSON, "
    "self_evaluation JSON, feedback VARCHAR(16), total_duration_ms INT, total_token_count INT, "
    "step_count INT, tool_call_count INT, created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, "
    "updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (id), "
    "UNIQUE KEY uk_diagnosis_run_run_id (run_id), "
    "KEY idx_diagnosis_run_session_created (session_id, created_at, id), "
    "KEY idx_diagnosis_run_session_run (session_id, run_id), KEY idx_diagnosis_run_status (status), "
    "KEY idx_diagnosis_run_agent_flow (agent_flow))"
)

TOOL_INVOCATION = (
    "CREATE TABLE tool_invocation (id BIGINT NOT NULL AUTO_INCREMENT, session_id VARCHAR(64) NOT NULL, "
    "run_id VARCHAR(64), step_id BIGINT, tool_name VARCHAR(64) NOT NULL, input_params JSON NOT NULL, "
    "output_preview TEXT, output_length INT, retrieval_layer VARCHAR(8), l0_match_count INT, "
    "l1_match_count INT, is_truncated BOOLEAN, relevance_level VARCHAR(20), dedup_reason VARCHAR(32), "
    "retrieval_details JSON, duration_ms INT, success BOOLEAN, error_message TEXT, "
    "created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id), "
    "KEY idx_session_id (session_id), KEY idx_tool_invocation_run_id (run_id, id), "
    "KEY idx_tool_name (tool_name), KEY idx_retrieval_layer (retrieval_layer))"
)

OLD_TOOL_INVOCATION = (
    "CREATE TABLE tool_invocation (id BIGINT NOT NULL AUTO_INCREMENT, session_id VARCHAR(64) NOT NULL, "
    "step_id BIGINT, tool_name VARCHAR(64) NOT NULL, input_params JSON NOT NULL, output_preview TEXT, "
    "output_length INT, duration_ms INT, success BOOLEAN, error_message TEXT, "
    "created_at DATETIME NOT NULL, PRIMARY KEY (id), KEY idx_session_id (session_id))"
)
"""Before V010 and V011: no run_id and none of the columns of the retrieval layers."""

NEIGHBOURS = (
    "CREATE TABLE agent_step (id BIGINT PRIMARY KEY AUTO_INCREMENT, run_id VARCHAR(64), body TEXT)",
    "CREATE TABLE chat_session (session_id VARCHAR(64) PRIMARY KEY, title TEXT)",
)
"""Tables of the Java application that are none of our business."""


async def flyway(url: str, *versions: str, failed: tuple[str, ...] = ()) -> None:
    """Flyway's history, with these versions applied."""
    await run_sql(url, FLYWAY)
    for rank, version in enumerate((*versions, *failed), start=1):
        success = 0 if version in failed else 1
        await run_sql(
            url,
            "INSERT INTO flyway_schema_history (installed_rank, version, description, type, script, "  # noqa: S608
            f"installed_by, execution_time, success) VALUES ({rank}, '{version}', 'd', 'SQL', "
            f"'V{version}__d.sql', 'app', 1, {success})",
        )


async def java_tables(url: str) -> None:
    """The two tables as V011 leaves them, and some neighbours."""
    await run_sql(url, DIAGNOSIS_RUN, TOOL_INVOCATION, *NEIGHBOURS)


async def every_row(url: str, *tables: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of tables, every column as bytes: two of these are equal only if nothing changed."""
    found = {}
    for table in tables:
        names = await run_sql(
            url,
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() "  # noqa: S608
            f"AND table_name = '{table}' ORDER BY column_name",
        )
        columns = ", ".join(f"HEX(CAST({name} AS CHAR))" for (name,) in names)
        found[table] = await run_sql(url, f"SELECT {columns} FROM {table} ORDER BY id")  # noqa: S608
    return found
