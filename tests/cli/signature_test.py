"""Signed artefacts: `sign`, `--trust`, `$TILEWRIGHT_TRUSTED_KEYS`.

  TILEWRIGHT=PATH python3 -m unittest signature_test.Signed
"""
import json
import os

from command_test import ARTEFACT, USAGE, Case

# Keys of RFC 8032, section 7.1: everybody has them.
PRIVATE = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n"
PUBLIC = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n"
KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
OTHER = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"


class Signed(Case):
    def setUp(self):
        super().setUp()
        self.compiled()
        self.write("key.pem", PRIVATE)
        self.write("public.pem", PUBLIC)

    def test_only_what_is_signed_runs(self):
        run = ["run", "dense.tw", "--random", "seed=0"]
        self.fails(ARTEFACT, [*run, "--trust", "public.pem"], "'dense.tw': the artefact is not signed")
        self.assertIn(KEY, self.succeeds("sign", "dense.tw", "--key", "key.pem").stdout)
        before = self.succeeds(*run).stdout
        self.assertEqual(self.succeeds(*run, "--trust", "public.pem").stdout, before)
        self.succeeds(*run, "--trust", OTHER, "--trust", KEY)
        self.succeeds(*run, "--trust", "anyone")
        self.fails(ARTEFACT, ["refit", "dense.tw", "--weights", "dense.onnx", "-o", "other.tw", "--trust", OTHER], "which is not trusted")
        for verb in ("run", "bench", "verify", "explain", "report"):
            self.fails(ARTEFACT, [verb, "dense.tw", "--trust", OTHER], f"signed with the key {KEY}, which is not trusted")

    def test_the_environment_says_whom_to_trust(self):
        self.succeeds("sign", "dense.tw", "--key", "key.pem", "-o", "signed.tw")
        trusted = {**os.environ, "TILEWRIGHT_TRUSTED_KEYS": f"{OTHER}:public.pem"}
        self.assertEqual(self.run_command("verify", "signed.tw", env=trusted).returncode, 0)
        self.assertEqual(self.run_command("run", "dense.tw", "--random", "seed=0", env=trusted).returncode, ARTEFACT)
        # What is compiled here is ours.
        self.assertEqual(self.run_command("verify", "dense.onnx", env=trusted).returncode, 0)

    def test_inspect_says_who_signed(self):
        self.assertNotIn("signed", self.succeeds("inspect", "dense.tw").stdout)
        self.assertIsNone(json.loads(self.succeeds("inspect", "dense.tw", "--json").stdout)["signature"])
        self.succeeds("sign", "dense.tw", "--key", "key.pem")
        self.assertIn(f"  signed with the key {KEY}\n", self.succeeds("inspect", "dense.tw").stdout)
        self.assertEqual(json.loads(self.succeeds("inspect", "dense.tw", "--json").stdout)["signature"], {"key": KEY, "holds": True})

    def test_other_weights_are_not_signed(self):
        self.succeeds("sign", "dense.tw", "--key", "key.pem")
        self.assertIn("sign it again", self.succeeds("refit", "dense.tw", "--weights", "dense.onnx", "-o", "other.tw").stderr)
        self.fails(ARTEFACT, ["run", "other.tw", "--random", "seed=0", "--trust", "public.pem"], "is not signed")

    def test_inspect_checks_without_running(self):
        self.assertIn("checked: manifest, kernels, plan and graphs agree; nothing was run.", self.succeeds("inspect", "dense.tw", "--check").stdout)
        data = bytearray((self.folder / "dense.tw").read_bytes())
        data[-1] ^= 1
        self.write("changed.tw", bytes(data))
        self.fails(ARTEFACT, ["inspect", "changed.tw", "--check"], "has changed")

    def test_wrong_keys(self):
        self.fails(USAGE, ["sign", "dense.tw"], "--key is required")
        self.fails(USAGE, ["sign", "dense.tw", "--key", "public.pem"], "no private Ed25519 key")
        self.fails(USAGE, ["sign", "dense.tw", "--key", "nope.pem"], "nope.pem")
        self.fails(USAGE, ["run", "dense.tw", "--random", "seed=0", "--trust", "key.pem"], "no public Ed25519 key")


if __name__ == "__main__":
    import unittest

    unittest.main()
