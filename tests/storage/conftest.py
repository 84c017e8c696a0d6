"""A stub of the hub, which the library huggingface_hub takes for the hub in these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.stub import TOKEN, Hub, running_hub


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[Hub]:
    """An empty hub. The user is logged in; the cache is empty."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the stub stores large files as Git LFS
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with running_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub
