"""Commands against services that want to see a certificate."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.commands import one_line, run
from tests.cli.conftest import Pair, serving_pair
from tests.support.certificates import Authority


@dataclass(frozen=True)
class MutualTls:
    """A pair, and what a client sets so that both sides trust each other."""

    pair: Pair
    settings: dict[str, str]


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MutualTls]:
    folder = tmp_path_factory.mktemp("mutual-tls")
    authority = Authority(folder / "authority")
    server, client = authority.issue("server"), authority.issue("client")
    ca = str(authority.ca)
    tls = {"TLS_CERT": str(server.cert), "TLS_KEY": str(server.key), "TLS_CLIENT_CA": ca}
    with serving_pair(folder / "pair", **tls) as pair:
        shown = {"TLS_CLIENT_CERT": str(client.cert), "TLS_CLIENT_KEY": str(client.key)}
        yield MutualTls(pair, {"TLS_CA": ca, **shown})


def test_a_command_shows_its_certificate(trusted: MutualTls, tmp_path: Path) -> None:
    line = one_line(
        run("trace", "run-1", *trusted.pair.options, cwd=tmp_path, before=None, **trusted.settings), 1
    )
    assert "knows no such run" in line
    checked = run(
        "contract-check", "--target", trusted.pair.run, cwd=tmp_path, before=None, **trusted.settings
    )
    assert checked.returncode == 0, checked.stderr


def test_conformance_shows_it_on_every_channel(trusted: MutualTls, tmp_path: Path) -> None:
    examined = run("conformance", *trusted.pair.options, cwd=tmp_path, before=None, **trusted.settings)
    assert examined.returncode == 0, examined.stdout + examined.stderr


def test_without_one_the_setting_is_named(trusted: MutualTls, tmp_path: Path) -> None:
    ca = trusted.settings["TLS_CA"]
    line = one_line(run("trace", "run-1", *trusted.pair.options, cwd=tmp_path, TLS_CA=ca), 1)
    assert "SUPERBIZ_TLS_CLIENT_CERT" in line


@pytest.mark.parametrize("lacking", ["TLS_CA", "TLS_CLIENT_CERT", "TLS_CLIENT_KEY"])
def test_a_certificate_is_set_with_its_key_and_an_authority(
    trusted: MutualTls, tmp_path: Path, lacking: str
) -> None:
    given = {name: value for name, value in trusted.settings.items() if name != lacking}
    line = one_line(run("trace", "run-1", *trusted.pair.options, cwd=tmp_path, before=None, **given), 2)
    assert f"SUPERBIZ_{lacking} must be set" in line


def test_a_key_of_another_certificate_is_refused_before_any_call(trusted: MutualTls, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other").issue("other")
    given = trusted.settings | {"TLS_CLIENT_KEY": str(other.key)}
    line = one_line(run("trace", "run-1", *trusted.pair.options, cwd=tmp_path, before=None, **given), 2)
    assert "SUPERBIZ_TLS_CLIENT_CERT and SUPERBIZ_TLS_CLIENT_KEY must be PEM files" in line
    assert str(tmp_path) not in line
