"""What the tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real captures and what other collectors made of them. They are not the project's to ship."""
    folder = os.environ.get("FLOWBUF_CORPUS")
    if not folder:
        pytest.skip("FLOWBUF_CORPUS does not name the folder of captures")
    return Path(folder)
