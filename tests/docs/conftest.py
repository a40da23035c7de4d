"""What snippets run against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.serving import Pair, serve


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Both services, for one document."""
    with serve(tmp_path) as started:
        yield started
