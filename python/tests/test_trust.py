"""Signed artefacts: trusted_keys of tilewright.load, and $TILEWRIGHT_TRUSTED_KEYS."""
from __future__ import annotations

import pathlib
import subprocess
import sysconfig
from typing import Any

import models
import pytest
import tilewright as tw

COMMAND = pathlib.Path(sysconfig.get_path("scripts")) / "tilewright"
# Keys of RFC 8032, section 7.1: everybody has them.
PRIVATE = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n"
KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
OTHER = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"


@pytest.fixture
def signed(artefacts: Any, tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "key.pem").write_text(PRIVATE)
    artefacts(models.dense).save(tmp_path / "plain.tw")
    subprocess.run([COMMAND, "sign", tmp_path / "plain.tw", "--key", tmp_path / "key.pem", "-o", tmp_path / "signed.tw"], check=True)
    return tmp_path


def test_only_what_a_trusted_key_signed_is_loaded(signed: pathlib.Path) -> None:
    assert tw.load(signed / "signed.tw", trusted_keys=[OTHER, KEY]).inputs
    assert tw.load((signed / "signed.tw").read_bytes(), trusted_keys=[KEY]).inputs
    with pytest.raises(tw.DamagedError, match="is not signed"):
        tw.load(signed / "plain.tw", trusted_keys=[KEY])
    with pytest.raises(tw.DamagedError, match="which is not trusted"):
        tw.load(signed / "signed.tw", trusted_keys=[OTHER])


def test_the_environment_is_asked_unless_the_program_says(signed: pathlib.Path, artefacts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TRUSTED_KEYS", KEY)
    assert tw.load(signed / "signed.tw").inputs
    with pytest.raises(tw.DamagedError, match="is not signed"):
        tw.load(signed / "plain.tw")
    assert tw.load(signed / "plain.tw", trusted_keys=[]).inputs
    assert artefacts(models.dense).load().verify().ok  # compiled here


def test_keys_that_are_none(signed: pathlib.Path) -> None:
    for keys in ([""], ["a:b"]):
        with pytest.raises(tw.UsageError, match="trusted_keys has"):
            tw.load(signed / "signed.tw", trusted_keys=keys)
