"""Settings of the services, read once from the environment at start.

A setting NAME is the variable SUPERBIZ_NAME; an empty variable counts as not set. Every error names the
setting and the rule, never the value. Whatever shows settings (repr, log, dump) shows secrets as ***.
"""

import difflib
import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError
from pydantic.fields import FieldInfo

from common.address import ADDRESS_RULE, Address, parse_address
from common.errors import StartError
from common.service_urls import DATABASE_URL_RULE, REDIS_URL_RULE, database_url, redacted_url, redis_url
from superbizagent_contract import DEFAULT_TOOLS, kinds, limits

PREFIX = "SUPERBIZ_"
MAX_WORKERS = 64

# Read by the client commands, the tests and the demo; they are no settings of a service.
_OTHERS = frozenset({"TOKEN", "TLS_CA", "TLS_CLIENT_CERT", "TLS_CLIENT_KEY"})
_OTHERS_PREFIXES = ("TEST_", "DEMO_")


class SettingsError(StartError):
    """A setting breaks a rule."""

    def __init__(self, setting: str, rule: str) -> None:
        super().__init__(f"{PREFIX}{setting} {rule}")
        self.setting = setting
        self.rule = rule


def _decimal(value: Any) -> Any:
    """Seconds as people write them; float() alone would take 1e9, inf, nan and 1_000, too."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value, re.ASCII) is None:
        raise ValueError
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value, re.ASCII) is None:
        raise ValueError
    return value


def _address(value: Any) -> Any:
    return parse_address(value) if isinstance(value, str) else value


def _offset(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([+-])(\d\d):([0-5]\d)", value, re.ASCII)
    if found is None:
        raise ValueError
    offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
    if offset > timedelta(hours=14):
        raise ValueError
    return timezone(-offset if found[1] == "-" else offset)


def _tools(value: Any) -> Any:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not all(kinds.TOOL_NAME.admits(name) for name in names):
        raise ValueError
    return DEFAULT_TOOLS.union(names)


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _shown_offset(zone: timezone) -> str:
    return "+00:00" if zone == UTC else str(zone).removeprefix("UTC")


Seconds = Annotated[float, BeforeValidator(_decimal), Field(gt=0, le=limits.MAX_LEASE_SECONDS)]
Listen = Annotated[Address, BeforeValidator(_address), PlainSerializer(str)]
Zone = Annotated[timezone, BeforeValidator(_offset), PlainSerializer(_shown_offset)]
Tools = Annotated[frozenset[str], BeforeValidator(_tools), PlainSerializer(sorted)]
DatabaseUrl = Annotated[str, BeforeValidator(database_url), PlainSerializer(redacted_url)]
RedisUrl = Annotated[str, BeforeValidator(redis_url), PlainSerializer(redacted_url)]

Limit = Annotated[int, BeforeValidator(_integer), Field(ge=1, le=1_000_000)]

_LIMIT_RULE = "must be a whole number of 1 to 1000000"
_SECONDS_RULE = "must be seconds, as a decimal above 0 and at most 86400"
_SWITCH_RULE = "must be true or false"
_PATH_RULE = "must be a path"


def _setting(default: Any, meaning: str, rule: str) -> Any:
    """A setting with its default. `rule` is what a wrong value is told."""
    return Field(
        default=default, description=meaning, json_schema_extra={"rule": rule}, validate_default=True
    )


class Settings(BaseModel):
    """All settings of both services; each field is the setting of the same name in upper case."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True
    )

    database_url: DatabaseUrl = _setting(
        "sqlite+aiosqlite:///superbizagent.db",
        "The database of runs and audit rows: sqlite+aiosqlite:///path, or for MySQL and MariaDB "
        "mysql+aiomysql://user:pw@host:3306/db. On SQLite the services migrate it; elsewhere `migrate` does.",
        DATABASE_URL_RULE,
    )
    database_time_zone: Zone = _setting(
        "+00:00",
        "The zone in which the two DATETIME columns of an adopted database were written, as a fixed offset.",
        "must be an offset of the form +HH:MM or -HH:MM, at most 14 hours",
    )
    db_pool_size: Annotated[int, BeforeValidator(_integer), Field(ge=1, le=1000)] = _setting(
        10, "The most database connections of one service.", "must be a whole number of 1 to 1000"
    )
    redis_url: RedisUrl | None = _setting(
        None,
        "Redis that wakes the streams of other processes: redis://[:pw@]host:6379/0. Without it, streams "
        "learn of other processes' events by polling.",
        REDIS_URL_RULE,
    )
    poll_seconds: Seconds = _setting(
        1.0, "How often watched runs are looked up when nothing wakes the streams.", _SECONDS_RULE
    )
    run_listen: Listen = _setting(
        "127.0.0.1:50051", "Where RunService listens; port 0 takes a free one.", ADDRESS_RULE
    )
    audit_listen: Listen = _setting(
        "127.0.0.1:50052", "Where AuditService listens; port 0 takes a free one.", ADDRESS_RULE
    )
    metrics_listen: Listen | None = _setting(
        None,
        "Where GET /metrics answers Prometheus, over plain HTTP; port 0 takes a free one. It holds counts "
        "only, so this address is exempt from the rule about insecure listening.",
        ADDRESS_RULE,
    )
    tls_cert: Path | None = _setting(None, "PEM file with the server's certificate chain.", _PATH_RULE)
    tls_key: Path | None = _setting(None, "PEM file with the key of TLS_CERT.", _PATH_RULE)
    tls_client_ca: Path | None = _setting(
        None,
        "PEM file with the authorities of client certificates; with it every client must show one. Without "
        "AUTH_FILE a verified client is operator.",
        _PATH_RULE,
    )
    auth_file: Path | None = _setting(
        None,
        "File of bearer tokens: `<name> <sha256 hex> <role>[,<role>]` a line; read at start and on SIGHUP.",
        _PATH_RULE,
    )
    allow_insecure_listen: bool = _setting(
        False, "Listen beyond this machine without TLS or without knowing the caller.", _SWITCH_RULE
    )
    workers: Annotated[int, BeforeValidator(_integer), Field(ge=1, le=MAX_WORKERS)] = _setting(
        1,
        "Processes that share the work on each address, under one supervisor. Limits, pools and memory are "
        "those of each.",
        f"must be a whole number of 1 to {MAX_WORKERS}",
    )
    max_calls: Limit = _setting(
        2000,
        "The most calls of one service that are carried out at once, streams not counted; more are refused "
        "with OVERLOADED.",
        _LIMIT_RULE,
    )
    max_streams: Limit = _setting(
        10000,
        "The most streams of one service that are open at once; more are refused with OVERLOADED.",
        _LIMIT_RULE,
    )
    allowed_tools: Tools = _setting(
        frozenset(),
        "Comma list of tool names that may be recorded, beside " + ", ".join(sorted(DEFAULT_TOOLS)) + ".",
        "must be a comma list of tool names, each " + kinds.TOOL_NAME.rule.removeprefix("must be "),
    )
    run_lease_seconds: Annotated[Seconds, Field(ge=limits.MIN_LEASE_SECONDS)] = _setting(
        300.0,
        "How long a run stays alive without a sign of life, if the caller names no lease.",
        "must be seconds, as a decimal of 1 to 86400",
    )
    heartbeat_seconds: Seconds = _setting(
        15.0, "The longest silence on a stream; keep it below the idle timeout of every proxy.", _SECONDS_RULE
    )
    stall_seconds: Seconds = _setting(
        60.0,
        "How long one write to a stream may wait for its reader before the stream is ended.",
        _SECONDS_RULE,
    )
    drain_seconds: Seconds = _setting(
        10.0, "How long a stopping server lets calls finish before it cuts them.", _SECONDS_RULE
    )
    unary_deadline_seconds: Seconds = _setting(
        10.0, "Default and cap of the time that a unary call may take.", _SECONDS_RULE
    )
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)] = _setting(
        "INFO", "The least level that is logged.", "must be DEBUG, INFO, WARNING or ERROR"
    )
    log_format: Literal["console", "json"] = _setting(
        "console",
        "Log lines for people, or one JSON object a line; both on stderr.",
        "must be console or json",
    )
    reflection: bool = _setting(True, "Serve gRPC reflection, which lists the contracts.", _SWITCH_RULE)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the variables of an environment; raise SettingsError for the first that breaks a rule."""
        given = {
            name.removeprefix(PREFIX): value
            for name, value in sorted(environ.items())
            if name.startswith(PREFIX)
        }
        for name in given:
            _check_known(name)
        known = {
            name.lower(): value for name, value in given.items() if value and name.lower() in cls.model_fields
        }
        wrong = ""
        settings = None
        try:
            settings = cls.model_validate(known)
        except ValidationError as error:
            wrong = str(error.errors(include_input=False, include_context=False)[0]["loc"][0])
        # Raised out here: the validation error, which could be asked for the value, is not carried along.
        if settings is None:
            raise SettingsError(wrong.upper(), _rule(cls.model_fields[wrong]))
        return settings

    def model_post_init(self, _: Any) -> None:
        """Rules over more than one setting."""
        if self.tls_cert is None and self.tls_key is not None:
            raise SettingsError("TLS_CERT", "must be set when TLS_KEY is set")
        if self.tls_cert is not None and self.tls_key is None:
            raise SettingsError("TLS_KEY", "must be set when TLS_CERT is set")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise SettingsError("TLS_CERT", "must be set when TLS_CLIENT_CA is set")

    def shown(self) -> dict[str, Any]:
        """Every setting in plain types, secrets as ***: what the start-up log says."""
        return {name.upper(): value for name, value in self.model_dump(mode="json").items()}

    def __repr_args__(self) -> Any:
        return self.shown().items()

    def __str__(self) -> str:
        return repr(self)


def _check_known(name: str) -> None:
    names = [field.upper() for field in Settings.model_fields]
    if name in names or name in _OTHERS or name.startswith(_OTHERS_PREFIXES):
        return
    # A misspelt setting would silently do nothing: with ALLOW_… or AUTH_… that is a hole.
    close = difflib.get_close_matches(name.upper(), names, n=1)
    hint = f"; did you mean {PREFIX}{close[0]}?" if close else ""
    raise SettingsError(re.sub(r"[^A-Za-z0-9_]", "?", name)[:64], "is not a setting" + hint)


def _rule(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra["rule"]) if isinstance(extra, dict) else "is wrong"
