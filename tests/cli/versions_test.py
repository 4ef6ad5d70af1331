"""Artefacts of older versions of the file format, as scripts/keep_artefacts.py kept them: they give the bits that they gave.

  TILEWRIGHT=PATH python3 -m unittest versions_test.Versions
"""
import json
import pathlib

from command_test import ARTEFACT, Case

KEPT = pathlib.Path(__file__).resolve().parent.parent / "data/kept"
KINDS = {"dense", "levels", "range", "loop", "state", "image", "counted", "cuda"}


def version_of(artefact):
    return int.from_bytes(artefact[8:12], "little")


class Versions(Case):
    def test_each_version_that_is_read_is_there(self):
        written = version_of(self.compiled().read_bytes())
        versions = sorted(int(folder.name) for folder in KEPT.iterdir())
        self.assertEqual(versions, list(range(versions[0], written + 1)), "run scripts/keep_artefacts.py when the version has changed")
        for version in versions:
            found = {folder.name: version_of((folder / "model.tw").read_bytes()) for folder in (KEPT / str(version)).iterdir()}
            self.assertEqual(found, dict.fromkeys(KINDS, version))

    def test_they_give_what_they_gave(self):
        for model in sorted(KEPT.glob("*/*/model.tw")):
            self.succeeds("inspect", model, "--check")
            inputs, outputs = (sorted((model.parent / part).glob("*.npy")) for part in ("inputs", "outputs"))
            if not outputs:
                continue
            words = [word for path in inputs for word in ("--input", f"{path.stem}=@{path}")]
            words += [word for path in outputs for word in ("--output", f"{path.stem}=@{path.stem}.npy")]
            self.succeeds("run", model, *words)
            for path in outputs:
                self.assertEqual((self.folder / path.name).read_bytes(), path.read_bytes(), path)

    def test_other_versions_are_refused_with_the_remedy(self):
        artefact = bytearray(self.compiled().read_bytes())
        for version, remedy in ((13, "compile the model again"), (version_of(artefact) + 1, "take a newer runtime")):
            artefact[8:12] = version.to_bytes(4, "little")
            self.write("other.tw", artefact)
            self.fails(ARTEFACT, ["run", "other.tw", "--random", "seed=0"], f"format version {version}", remedy)

    def test_signing_keeps_the_version(self):
        old = sorted(KEPT.iterdir(), key=lambda folder: int(folder.name))[0] / "dense/model.tw"
        self.write("key.pem", b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n")
        self.succeeds("sign", old, "--key", "key.pem", "-o", "signed.tw")
        self.assertEqual(version_of((self.folder / "signed.tw").read_bytes()), version_of(old.read_bytes()))
        self.assertEqual(json.loads(self.succeeds("inspect", "signed.tw", "--json").stdout)["manifest"]["format_version"], version_of(old.read_bytes()))
