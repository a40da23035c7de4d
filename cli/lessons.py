"""What --help teaches about each command, beside its arguments."""

from dataclasses import dataclass

_SERVICE_EXIT_CODES = (
    "0 stopped by SIGTERM or Ctrl-C, after the drain; 1 ended by itself; 2 a setting is wrong"
)
_ACCESS = ("TOKEN", "TLS_CA", "TLS_CLIENT_CERT", "TLS_CLIENT_KEY")
_CLIENT_SETTINGS = ("RUN_LISTEN", "AUDIT_LISTEN", *_ACCESS)
_SHARED = ("DATABASE_URL", "AUTH_FILE", "TLS_CERT", "TLS_KEY", "ALLOWED_TOOLS", "DRAIN_SECONDS", "WORKERS")


@dataclass(frozen=True, slots=True)
class Lesson:
    """`brief` is its line in the list of commands; `settings` are those that matter most."""

    brief: str
    what: str
    examples: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    exit_codes: str = ""


TOP = Lesson(
    brief="",
    what=(
        "Runs and tool audits of a diagnosis agent: RunService keeps runs and their event streams,\n"
        "AuditService keeps metadata of tool calls. Start with `superbizagent demo`."
    ),
    examples=(
        "superbizagent demo                        a whole diagnosis on services of its own",
        "superbizagent serve                       both services on this machine, on SQLite",
        "superbizagent watch run-…                 a run, live",
        "superbizagent watch --help                more about a command",
    ),
    exit_codes=(
        "0 done; 1 not found, not reachable, or a check found something;\n  2 wrong arguments or settings"
    ),
)

LESSONS: dict[str, Lesson] = {
    "demo": Lesson(
        brief="one real diagnosis on a pair of services of its own",
        what=(
            "Starts both services as processes on free ports with a new SQLite database, lets a misbehaving\n"
            "caller be refused, and answers a question about it with a scripted agent (no language model):\n"
            "it searches the project's docs, the services' log and the database through the tool boundary;\n"
            "a second connection shows the events live. Then it checks that all of it really happened.\n"
            "Settings of your environment do not reach it; its folder stays, everything else is stopped."
        ),
        examples=(
            "superbizagent demo",
            'superbizagent demo --question "how long does a lease last?"',
        ),
        exit_codes="0 all of it happened; 1 something did not; 2 the question cannot be asked",
    ),
    "serve": Lesson(
        brief="both services in one process",
        what=(
            "Serves RunService and AuditService in this process, each on its own address, until SIGTERM or\n"
            "Ctrl-C. On SQLite the database is created and migrated by itself; elsewhere run `migrate` first."
        ),
        examples=(
            "superbizagent serve",
            "SUPERBIZ_DATABASE_URL=sqlite+aiosqlite:////var/lib/sba/runs.db superbizagent serve",
        ),
        settings=("RUN_LISTEN", "AUDIT_LISTEN", *_SHARED),
        exit_codes=_SERVICE_EXIT_CODES,
    ),
    "run-service": Lesson(
        brief="RunService alone",
        what="Serves RunService until SIGTERM or Ctrl-C. Start as many replicas as you need.",
        examples=("SUPERBIZ_RUN_LISTEN=127.0.0.1:6001 superbizagent run-service",),
        settings=("RUN_LISTEN", "RUN_LEASE_SECONDS", "HEARTBEAT_SECONDS", *_SHARED),
        exit_codes=_SERVICE_EXIT_CODES,
    ),
    "audit-service": Lesson(
        brief="AuditService alone",
        what="Serves AuditService until SIGTERM or Ctrl-C. Start as many replicas as you need.",
        examples=(
            "SUPERBIZ_AUDIT_LISTEN=127.0.0.1:6002 superbizagent audit-service",
            "superbizagent audit-service --workers 4      four processes on one port",
        ),
        settings=("AUDIT_LISTEN", *_SHARED),
        exit_codes=_SERVICE_EXIT_CODES,
    ),
    "migrate": Lesson(
        brief="create or complete the tables of both services",
        what=(
            "Brings the database of DATABASE_URL up to what both services need, adding what is missing.\n"
            "It may be repeated, broken off and run twice at once. Nothing is done if anything is in the way."
        ),
        examples=("superbizagent migrate --check", "superbizagent migrate"),
        settings=("DATABASE_URL", "DATABASE_TIME_ZONE"),
        exit_codes=(
            "0 the tables are there; 1 --check found something to do, something is in the way,\n"
            "  or the database does not answer; 2 a setting is wrong"
        ),
    ),
    "purge": Lesson(
        brief="delete old events and audit rows",
        what=(
            "Deletes the events of runs that ended longer ago than AGE, and audit rows that are older, with\n"
            "their idempotency keys. Runs themselves stay, with question and answer, and a run that is not\n"
            "final is not touched. Ages are judged by the database's clock. It works in small batches\n"
            "beside the running services, rests as long as it works, and may be broken off and repeated."
        ),
        examples=(
            "superbizagent purge --older-than 90d --dry-run    how much it would be",
            "superbizagent purge --older-than 90d",
        ),
        settings=("DATABASE_URL", "DATABASE_TIME_ZONE"),
        exit_codes=(
            "0 done; 1 the database does not answer or is not migrated; 2 wrong arguments or settings;\n"
            "  130 broken off by Ctrl-C: it says how far it came"
        ),
    ),
    "watch": Lesson(
        brief="follow a run live",
        what=(
            "Shows the events of a run, one a line: those so far, then each as it happens, until the run is\n"
            "final. After a cut or a restart of the service it goes on where it was. Times are UTC."
        ),
        examples=(
            "superbizagent watch run-3f0c…",
            "superbizagent watch --run 10.0.0.7:50051 run-3f0c… | grep TOOL_",
        ),
        settings=("RUN_LISTEN", *_ACCESS),
        exit_codes=(
            "0 the run is final, whatever its outcome; 1 not found or not reachable;\n"
            "  2 wrong arguments or settings"
        ),
    ),
    "trace": Lesson(
        brief="show one run: head, timeline, tool calls",
        what=(
            "Shows a run from both services: its head, its events, and the audited tool calls with status,\n"
            "evidence, duration and bytes. Question and answer are not part of it. Times are UTC."
        ),
        examples=(
            "superbizagent trace run-3f0c…",
            "superbizagent trace --session sess-1 run-3f0c…     only if the run belongs to the session",
        ),
        settings=_CLIENT_SETTINGS,
        exit_codes="0 shown; 1 not found or not reachable; 2 wrong arguments or settings",
    ),
    "contract-check": Lesson(
        brief="prove that the contracts can carry metadata only",
        what=(
            "Walks every message that a call can carry and fails on whatever could hold a body: bytes,\n"
            "maps, foreign messages, strings without a grammar, names that bodies have, texts beyond the\n"
            "three. Prints the digest of the contracts: a server with the same digest has the very same."
        ),
        examples=(
            "superbizagent contract-check",
            "superbizagent contract-check --target 127.0.0.1:50052    a running server, for operators",
        ),
        settings=_ACCESS,
        exit_codes=(
            "0 nothing but metadata fits in; 1 something else does, or the server does not answer;\n"
            "  2 wrong arguments or settings"
        ),
    ),
    "conformance": Lesson(
        brief="try every rule of the contracts on running services",
        what=(
            "Plays the public black-box scenarios on a deployment and prints each rule with how it went:\n"
            "streams with cuts, races, idempotency, paging, leases, refusals. With the addresses of several\n"
            "replicas it goes to and fro between them. Nothing that is there is touched: it makes some 75\n"
            "runs and 1,100 audit rows under ids of its own, which stay until they are purged. Where the\n"
            "services want a token it must be an operator's."
        ),
        examples=(
            "superbizagent conformance",
            "superbizagent conformance --run 10.0.0.7:50051,10.0.0.8:50051 --audit 10.0.0.7:50052",
        ),
        settings=_CLIENT_SETTINGS,
        exit_codes=(
            "0 every rule is kept; 1 one is broken, or a service does not answer;\n"
            "  2 wrong arguments or settings"
        ),
    ),
    "token": Lesson(
        brief="make a token for a caller",
        what="Tokens tell the services who calls. They know the SHA-256 of each, from the file AUTH_FILE.",
        examples=("superbizagent token new --name gateway-1 --role gateway",),
    ),
    "token new": Lesson(
        brief="print a new token and its line for AUTH_FILE",
        what=(
            "Prints a new random token and the line that makes the services know it. Nothing is written:\n"
            "give the token to the caller (SUPERBIZ_TOKEN), append the line to AUTH_FILE and send SIGHUP.\n"
            "Roles: gateway (carries runs out, records audits), trace (reads, without question and answer),\n"
            "operator (everything)."
        ),
        examples=(
            "superbizagent token new --name gateway-1 --role gateway",
            "superbizagent token new --name oncall --role trace,gateway",
        ),
        settings=("AUTH_FILE", "TOKEN"),
        exit_codes="0 printed; 2 wrong arguments",
    ),
}
