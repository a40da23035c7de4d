"""What snippets run against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.java import Stubs, make_stubs
from tests.docs.serving import Pair, serve


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Both services, for one document."""
    with serve(tmp_path) as started:
        yield started


@pytest.fixture(scope="session")
def java_stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    """The stubs for Java."""
    return make_stubs(tmp_path_factory.mktemp("java"))
