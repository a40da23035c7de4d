"""Settings: defaults, rules, and secrets that are never shown."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from common.address import Address, parse_address
from common.settings import Settings, SettingsError
from superbizagent_contract import DEFAULT_TOOLS

SECRET = "s3cr3t-pw"

# The table of the contract.
DEFAULTS = {
    "DATABASE_URL": "sqlite+aiosqlite:///superbizagent.db",
    "DATABASE_TIME_ZONE": "+00:00",
    "DB_POOL_SIZE": 10,
    "REDIS_URL": None,
    "POLL_SECONDS": 1.0,
    "RUN_LISTEN": "127.0.0.1:50051",
    "AUDIT_LISTEN": "127.0.0.1:50052",
    "METRICS_LISTEN": None,
    "TLS_CERT": None,
    "TLS_KEY": None,
    "TLS_CLIENT_CA": None,
    "AUTH_FILE": None,
    "ALLOW_INSECURE_LISTEN": False,
    "WORKERS": 1,
    "MAX_CALLS": 2000,
    "MAX_STREAMS": 10000,
    "ALLOWED_TOOLS": sorted(DEFAULT_TOOLS),
    "RUN_LEASE_SECONDS": 300.0,
    "HEARTBEAT_SECONDS": 15.0,
    "STALL_SECONDS": 60.0,
    "DRAIN_SECONDS": 10.0,
    "UNARY_DEADLINE_SECONDS": 10.0,
    "LOG_LEVEL": "INFO",
    "LOG_FORMAT": "console",
    "REFLECTION": True,
}


def read(**variables: str) -> Settings:
    return Settings.from_env({f"SUPERBIZ_{name}": value for name, value in variables.items()})


def test_without_variables_every_setting_has_the_default_of_the_contract() -> None:
    assert read().shown() == DEFAULTS


def test_an_empty_variable_counts_as_not_set() -> None:
    assert read(REDIS_URL="", RUN_LISTEN="", LOG_LEVEL="") == read()


def test_other_variables_of_the_environment_are_not_read() -> None:
    assert Settings.from_env({"PATH": "/bin", "RUN_LISTEN": "nonsense"}) == read()


def test_every_setting_says_what_it_means_and_what_its_rule_is() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert isinstance(field.json_schema_extra, dict), name
        assert str(field.json_schema_extra["rule"]).startswith("must be"), name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", f"mysql+aiomysql://user:{SECRET}@@host/db"),
        ("DATABASE_URL", f"mysql+aiomysql://user:a/{SECRET}@host/db"),
        ("DATABASE_URL", f"mysql+aiomysql://user:a?{SECRET}@host/db"),
        ("DATABASE_URL", f"mysql+aiomysql://user:a#{SECRET}@host/db"),
        ("DATABASE_URL", f"mysql+aiomysql://user:{SECRET}@host:port/db"),
        ("DATABASE_URL", f"mysql+aiomysql://user:{SECRET}@[host/db"),
        ("DATABASE_URL", f"mysql://user:{SECRET}@host/db"),
        ("DATABASE_URL", f"mysql+aiomysql://user:{SECRET}@host"),
        ("DATABASE_URL", f"postgresql://user:{SECRET}@host/db"),
        ("DATABASE_URL", "sqlite+aiosqlite://"),
        ("DATABASE_URL", "superbizagent.db"),
        ("DATABASE_URL", f"mysql+aiomysql://user:{SECRET}@host/db\n"),
        ("REDIS_URL", f"http://:{SECRET}@host"),
        ("REDIS_URL", f"redis://:{SECRET}/x@host"),
        ("DATABASE_TIME_ZONE", "Europe/Berlin"),
        ("DATABASE_TIME_ZONE", "+14:01"),
        ("DATABASE_TIME_ZONE", "08:00"),
        ("DB_POOL_SIZE", "0"),
        ("DB_POOL_SIZE", "1001"),
        ("DB_POOL_SIZE", "1_0"),
        ("DB_POOL_SIZE", "2.5"),
        ("POLL_SECONDS", "0"),
        ("POLL_SECONDS", "-1"),
        ("POLL_SECONDS", "nan"),
        ("POLL_SECONDS", "inf"),
        ("POLL_SECONDS", "1e3"),
        ("POLL_SECONDS", "86401"),
        ("POLL_SECONDS", "\u0661"),
        ("RUN_LEASE_SECONDS", "0.9"),
        ("RUN_LISTEN", "50051"),
        ("RUN_LISTEN", ":50051"),
        ("RUN_LISTEN", "host:65536"),
        ("RUN_LISTEN", "host:-1"),
        ("RUN_LISTEN", "::1:50051"),
        ("RUN_LISTEN", "[::1]"),
        ("RUN_LISTEN", "[host]:1"),
        ("RUN_LISTEN", "unix:/tmp/socket"),
        ("METRICS_LISTEN", "host"),
        ("ALLOW_INSECURE_LISTEN", "perhaps"),
        ("WORKERS", "0"),
        ("WORKERS", "65"),
        ("WORKERS", "two"),
        ("REFLECTION", "2"),
        ("ALLOWED_TOOLS", "good,not good"),
        ("ALLOWED_TOOLS", "good,"),
        ("ALLOWED_TOOLS", "sk-" + "a" * 30),
        ("LOG_LEVEL", "LOUD"),
        ("LOG_FORMAT", "xml"),
    ],
)
def test_a_wrong_value_is_refused_with_setting_and_rule_and_without_the_value(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(**{name: value})
    assert caught.value.setting == name
    assert re.fullmatch(rf"SUPERBIZ_{name} must be [^\n]+", str(caught.value))
    assert SECRET not in str(caught.value)
    # Nothing that travels with the error holds the value.
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_a_misspelt_setting_is_refused_with_a_hint() -> None:
    with pytest.raises(
        SettingsError, match=r"^SUPERBIZ_AUTH_FLIE is not a setting; did you mean SUPERBIZ_AUTH_FILE\?$"
    ):
        read(AUTH_FLIE="/etc/tokens")
    with pytest.raises(SettingsError, match=r"^SUPERBIZ_run_listen is not a setting"):
        read(run_listen="127.0.0.1:1")


def test_the_name_of_a_misspelt_setting_cannot_steer_a_terminal() -> None:
    with pytest.raises(SettingsError) as caught:
        read(**{"A\x1b[31m": "1"})
    assert str(caught.value).isprintable()


def test_variables_of_clients_tests_and_the_demo_are_no_misspelt_settings() -> None:
    assert read(TOKEN="t", TLS_CA="/ca", TLS_CLIENT_CERT="/c", TEST_MYSQL_URL="u", DEMO_SLOW="1") == read()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read().log_level = "DEBUG"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"mysql+aiomysql://user:{SECRET}@host:3306/db", "mysql+aiomysql://user:***@host:3306/db"),
        (
            f"mysql+aiomysql://user:{SECRET}@host/db?password={SECRET}",
            "mysql+aiomysql://user:***@host/db?***",
        ),
        (f"mysql+aiomysql://{SECRET}@host/db", "mysql+aiomysql://:***@host/db"),
        ("mysql+aiomysql://host/db", "mysql+aiomysql://host/db"),
        ("sqlite+aiosqlite:////var/lib/runs@home.db", "sqlite+aiosqlite:////var/lib/runs@home.db"),
    ],
)
def test_the_database_password_is_used_but_never_shown(url: str, shown: str) -> None:
    settings = read(DATABASE_URL=url)
    assert settings.database_url == url
    assert settings.shown()["DATABASE_URL"] == shown
    for text in (
        repr(settings),
        str(settings),
        f"{settings}",
        settings.model_dump_json(),
        str(settings.model_dump()),
    ):
        assert SECRET not in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"redis://:{SECRET}@host:6379/0", "redis://:***@host:6379/0"),
        (f"rediss://user:{SECRET}@host", "rediss://user:***@host"),
        (f"unix:///run/redis.sock?password={SECRET}", "unix:///run/redis.sock?***"),
    ],
)
def test_the_redis_password_is_used_but_never_shown(url: str, shown: str) -> None:
    settings = read(REDIS_URL=url)
    assert settings.redis_url == url
    assert settings.shown()["REDIS_URL"] == shown
    assert SECRET not in repr(settings) + settings.model_dump_json()


def test_allowed_tools_are_added_to_the_default_ones() -> None:
    assert read(ALLOWED_TOOLS="restart_pod, query_loki").allowed_tools == DEFAULT_TOOLS | {
        "restart_pod",
        "query_loki",
    }


@pytest.mark.parametrize(
    ("text", "offset"),
    [("+00:00", 0), ("-00:00", 0), ("+08:00", 480), ("-03:30", -210), ("+14:00", 840)],
)
def test_the_database_time_zone_is_a_fixed_offset(text: str, offset: int) -> None:
    settings = read(DATABASE_TIME_ZONE=text)
    assert settings.database_time_zone.utcoffset(None) == timedelta(minutes=offset)
    assert settings.shown()["DATABASE_TIME_ZONE"] == ("+00:00" if offset == 0 else text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:50051", Address("::1", 50051)),
        ("runs.internal:65535", Address("runs.internal", 65535)),
    ],
)
def test_a_listen_address_is_host_and_port(text: str, address: Address) -> None:
    assert read(RUN_LISTEN=text).run_listen == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "is_loopback"),
    [
        ("localhost:1", True),
        ("127.0.0.1:1", True),
        ("127.8.9.10:1", True),
        ("[::1]:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("localhost.example.com:1", False),
        ("127.0.0.1.example.com:1", False),
    ],
)
def test_only_addresses_of_this_machine_are_loopback(text: str, is_loopback: bool) -> None:
    assert parse_address(text).is_loopback is is_loopback


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"TLS_CERT": "/c"}, "TLS_KEY"),
        ({"TLS_KEY": "/k"}, "TLS_CERT"),
        ({"TLS_CLIENT_CA": "/a"}, "TLS_CERT"),
    ],
)
def test_tls_settings_come_together(given: dict[str, str], missing: str) -> None:
    with pytest.raises(SettingsError, match=f"^SUPERBIZ_{missing} must be set"):
        read(**given)
    assert read(TLS_CERT="/c", TLS_KEY="/k").tls_cert == Path("/c")


def test_seconds_may_be_decimals_and_levels_lower_case() -> None:
    settings = read(POLL_SECONDS="0.25", LOG_LEVEL="debug", ALLOW_INSECURE_LISTEN="TRUE")
    assert (settings.poll_seconds, settings.log_level, settings.allow_insecure_listen) == (
        0.25,
        "DEBUG",
        True,
    )
