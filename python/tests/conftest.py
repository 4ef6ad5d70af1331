"""Compilations in tests neither measure nor use what earlier ones left; a test that wants either says so."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

os.environ["TILEWRIGHT_NO_MEASURE"] = "1"
os.environ["TILEWRIGHT_CACHE_DIR"] = "/dev/null"
os.environ["TILEWRIGHT_DB"] = "/dev/null"

import models  # noqa: E402
import tilewright as tw  # noqa: E402


@pytest.fixture(scope="session")
def artefacts() -> Callable[..., tw.Artefact]:
    """compile(model, **options), each model once."""
    made: dict[Any, tw.Artefact] = {}

    def get(make: Callable[[], Any], **options: Any) -> tw.Artefact:
        key = (make, repr(options))
        if key not in made:
            made[key] = tw.compile_artefact(make(), **options)
        return made[key]
    return get


@pytest.fixture
def dense(artefacts: Callable[..., tw.Artefact]) -> tw.Model:
    return artefacts(models.dense).load(threads=1)


@pytest.fixture
def in_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
