#!/usr/bin/env python3
"""The command from outside: exit codes, messages, JSON, help, full disks and sudden death.

  TILEWRIGHT=PATH python3 -m unittest command_test.Usage

Needs the standard library only. Each case says what is wrong, the exit code of the documentation, and words of the
message that must name it.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile
import zlib

import onnx_bytes as ob

TILEWRIGHT = os.environ["TILEWRIGHT"]
# Equal on every machine and every time, as in tests/environment.cmake; tests of what is kept or measured say so.
os.environ |= {"TILEWRIGHT_CACHE_DIR": "/dev/null", "TILEWRIGHT_DB": "/dev/null", "TILEWRIGHT_NO_MEASURE": "1"}
USAGE, MODEL, MISMATCH, ARTEFACT, EXHAUSTED = 2, 3, 4, 5, 6


def npy(shape, values, descr="<f4"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    code = {"<f4": "f", "<i8": "q"}[descr]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{code}", *values)


def npy_floats(data):
    return list(struct.unpack(f"<{(len(data) - 128) // 4}f", data[128:]))


class Case(unittest.TestCase):
    """A temporary folder with dense.onnx (relu(x w + b), x of 4 x 3) as the working directory of every command."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.write("dense.onnx", ob.dense())

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def run_command(self, *words, **options):
        return subprocess.run([TILEWRIGHT, *words], cwd=self.folder, capture_output=True, text=True, timeout=300, **options)

    def succeeds(self, *words, **options):
        done = self.run_command(*words, **options)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
        return done

    def fails(self, code, words, *fragments):
        """The command ends with `code`, says every fragment on stderr, nothing on stdout, and leaves no file behind."""
        before = sorted(p.relative_to(self.folder) for p in self.folder.rglob("*"))
        done = self.run_command(*words)
        with self.subTest(words=words):
            self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
            for fragment in fragments:
                self.assertIn(fragment, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(before, sorted(p.relative_to(self.folder) for p in self.folder.rglob("*")))

    def compiled(self, name="dense.tw", *options):
        self.succeeds("compile", "dense.onnx", "-o", name, *options)
        return self.folder / name

    def compile_for_gpu(self, model, artefact, *options, target=None):
        """Skips the test where there is no GPU that we have code for. `target`: not the one for this GPU."""
        if not os.path.exists("/dev/nvidiactl"):
            self.skipTest("not run: no NVIDIA GPU")
        query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        major = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split(".")[0]
        if major not in ("8", "9"):
            self.skipTest(f"not run: no code for an NVIDIA GPU of compute capability {major}")
        done = self.run_command("compile", model, "-o", artefact, "--target", target or {"8": "cuda:sm_80", "9": "cuda:sm_90a"}[major], *options)
        if done.returncode == MODEL and "unsupported" in done.stderr:
            self.skipTest(f"not run: {done.stderr}")
        self.assertEqual(done.returncode, 0, done.stderr)


class Usage(Case):
    def test_verbs_and_options(self):
        self.fails(USAGE, [], "Usage: tilewright VERB", "compile", "tilewright VERB -h")
        self.fails(USAGE, ["frob"], "'frob'", "compile")
        self.fails(USAGE, ["--json"], "verb")
        self.fails(USAGE, ["compile", "dense.onnx", "--frob"], "--frob")
        self.fails(USAGE, ["compile"], "MODEL")
        self.fails(USAGE, ["compile", "dense.tw"], "dense.tw", "compiled already")
        self.fails(USAGE, ["bench", "dense.onnx", "--threads", "two"], "--threads")
        self.fails(USAGE, ["bench", "dense.onnx", "--threads", "-1"], "--threads")
        self.fails(USAGE, ["bench", "dense.onnx", "--iterations", "0"], "--iterations")

    def test_what_was_probably_meant(self):
        self.fails(USAGE, ["compile", "dense.onnx", "--taget", "cpu"], "unknown option '--taget'; did you mean '--target'?")
        self.fails(USAGE, ["bench", "dense.onnx", "--thread=2"], "unknown option '--thread'; did you mean '--threads'?")
        self.fails(USAGE, ["cache", "prune", "--maxsize", "2G"], "did you mean '--max-size'?")
        self.fails(USAGE, ["complie", "dense.onnx"], "no verb 'complie'; did you mean 'compile'?")
        self.fails(USAGE, ["compile", "dense.onnx", "other"], "unexpected: other")
        self.fails(USAGE, ["bench", "dense.onnx", "--threads", "-1"], "tilewright: usage: --threads -1: expected 0 (all CPUs")
        self.fails(USAGE, ["bench", "dense.onnx", "--threads", "two"], "--threads 'two'")
        self.fails(USAGE, ["verify", "dense.onnx", "--rtol", "small"], "--rtol 'small'")
        self.fails(USAGE, ["run", "dense.onnx", "--random", "seed=0", "--dim", "batch=two"], "--dim 'batch=two'")
        self.fails(USAGE, ["cache", "prune", "--max-size", "many"], "--max-size 'many'")

    def test_options_of_compiling_are_described_once(self):
        self.assertIn("--precision strict|default|fast", self.succeeds("compile", "-h").stdout)
        for verb in ("run", "bench", "verify", "explain"):
            text = self.succeeds(verb, "-h").stdout
            self.assertNotIn("--precision", text)
            self.assertIn("tilewright compile -h", text)
        self.assertIn("--db", self.succeeds("db", "status", "-h").stdout)

    def test_the_page_of_options(self):
        document = json.loads(self.succeeds("options", "--json").stdout)
        self.assertEqual(document["schema"], "tilewright.options.v1")
        rows = {row["name"]: row for row in document["compile"]}
        self.assertEqual((rows["precision"]["choices"], rows["precision"]["default"], rows["precision"]["key"]), ("strict|default|fast", "default", "part"))
        self.assertEqual(rows["budget"]["key"], "indifferent")
        self.assertNotEqual(rows["budget"]["why"], "")
        for words, rows in ((["-h"], document["global"]), (["compile", "-h"], document["compile"])):
            text = self.succeeds(*words).stdout
            for row in rows:
                self.assertIn(f"--{row['name']}", text)

    def test_malformed_model_options(self):
        for text in ("x", "x:", ":4x3", "x:4xq", "x:4x-3", "x:4x"):
            if text != "x:":  # a scalar: well-formed, but against the model
                self.fails(USAGE, ["compile", "dense.onnx", "--shape", text], "--shape", text.removeprefix("x:"))
        for text in ("batch", "=3", "batch=two", "batch="):
            self.fails(USAGE, ["compile", "dense.onnx", "--dim", text], "--dim")
        self.fails(USAGE, ["compile", "dense.onnx", "--const", "x=x.npy"], "--const", "@FILE")
        self.fails(USAGE, ["compile", "dense.onnx", "--const", "x=@missing.npy"], "missing.npy")

    def test_configuration_files(self):
        self.write("c.json", b'{"compile": {"target": "cpu:x86-64-v3", "disable-pass": ["fuse", "fuse-outputs"]}, "json": true}')
        document = json.loads(self.succeeds("compile", "dense.onnx", "--config", "c.json").stdout)
        self.assertEqual(document["target"], "cpu:x86-64-v3")
        self.assertGreater(document["groups"], 1)
        document = json.loads(self.succeeds("compile", "dense.onnx", "--config", "c.json", "--target", "cpu:x86-64-v4").stdout)
        self.assertEqual(document["target"], "cpu:x86-64-v4", "the command line stands above the file")
        self.write("types.json", b'{"bench": {"threads": 1, "duration": 0, "profile": true, "entry": "main", "dtype": "f16"}}')
        self.assertIn(", 1 thread, ", self.succeeds("bench", "dense.onnx", "--config", "types.json").stdout)
        # The environment stands above the file: TILEWRIGHT_NO_MEASURE is set here.
        self.write("measure.json", b'{"compile": {"no-measure": false, "explore": 2}}')
        self.fails(USAGE, ["compile", "dense.onnx", "--config", "measure.json"], "--no-measure")
        for text, message in ((b'{"compile": {"taget": "cpu"}}', "'compile' has no option 'taget'; did you mean 'target'?"),
                              (b'{"complie": {"target": "cpu"}}', "no verb 'complie'; did you mean 'compile'?"),
                              (b'{"jsn": true}', "no option 'jsn'; did you mean 'json'?"),
                              (b'{"bench": {"threads": "two"}}', "--threads 'two'"), (b'{"bench": {"threads": 1.5}}', "--threads '1.5'")):
            self.write("bad.json", text)
            self.fails(USAGE, ["bench", "dense.onnx", "--config", "bad.json"], message)
        for text in (b"[1]", b"{", b'{"compile": {"frob": 1}}', b'{"frob": 1}', b'{"compile": {"target": null}}'):
            self.write("bad.json", text)
            self.fails(USAGE, ["compile", "dense.onnx", "--config", "bad.json"])
        self.fails(USAGE, ["compile", "dense.onnx", "--config", "missing.json"], "missing.json")

    def test_dtypes(self):
        self.succeeds("compile", "dense.onnx", "-o", "half.tw", "--dtype", "f16")
        self.assertIn("f32 as f16", self.succeeds("inspect", "half.tw").stdout)
        manifest = json.loads(self.succeeds("inspect", "half.tw", "--json").stdout)["manifest"]
        self.assertEqual((manifest["dtype"], manifest["entries"][0]["inputs"][0]["dtype"]), ("f16", "f32"))
        self.assertIn("f16", self.succeeds("inspect", "half.tw", "--section", "graph.0").stdout)
        for dtype in ("f16", "bf16"):
            self.succeeds("verify", "dense.onnx", "--dtype", dtype)
        self.succeeds("verify", "half.tw")
        self.fails(USAGE, ["compile", "dense.onnx", "--dtype", "f8"], "--dtype", "--dtype 'f8': expected f32, f16 or bf16")
        self.assertNotRegex(self.succeeds("compile", "--help").stdout, r"[^\n -~]", "values have names")

    def test_events(self):
        self.succeeds("compile", "dense.onnx", "--events", "e.ndjson")
        events = [json.loads(line) for line in (self.folder / "e.ndjson").read_text().splitlines()]
        self.assertEqual({e["phase"] for e in events}, {"import", "transform", "lower", "code", "assemble"})
        self.fails(USAGE, ["compile", "dense.onnx", "--events", "missing/e.ndjson"], "--events")

    def test_lists_of_shapes(self):
        self.write("dynamic.onnx", ob.dense(batch="batch"))
        for text in ("batch=1,2,", "batch=1,,2", "batch=1,two"):
            self.fails(USAGE, ["compile", "dynamic.onnx", "--dim", text], "--dim")
        self.fails(USAGE, ["compile", "dynamic.onnx", "--dim", "batch=1,1"], "twice")
        self.fails(USAGE, ["compile", "dynamic.onnx", "--shape", "x:1x3,2x3", "--dim", "batch=1,2,3"], "--dim", "value by value")
        self.succeeds("compile", "dynamic.onnx", "--dim", "batch=4,2", "-o", "both.tw")
        self.write("x.npy", npy([2, 3], range(6)))
        self.succeeds("run", "both.tw", "--input", "x=@x.npy", "--output", "y=@y.npy")
        self.assertEqual(npy_floats((self.folder / "y.npy").read_bytes()), ob.dense_reference(list(range(6)), m=2))
        self.succeeds("verify", "both.tw")
        self.succeeds("bench", "both.tw", "--duration", "0", "--entry", "x:2x3")
        self.write("x.npy", npy([3, 3], range(9)))
        self.fails(USAGE, ["run", "both.tw", "--input", "x=@x.npy"], "x:4x3", "x:2x3")
        self.fails(USAGE, ["run", "both.tw", "--random", "seed=0", "--entry", "frob"], "frob", "x:2x3")

    def test_targets_and_passes(self):
        self.fails(USAGE, ["compile", "dense.onnx", "--target", "cpu:z80"], "cpu:z80", "cpu:x86-64-v3", "cuda:sm_90a")
        self.fails(USAGE, ["compile", "dense.onnx", "--disable-pass", "frob"], "--disable-pass", "frob")
        self.fails(USAGE, ["compile", "dense.onnx", "--disable-pass", "partition"], "partition", "required")
        self.fails(USAGE, ["compile", "dense.onnx", "--stop-after", "frob"], "frob")

    def test_plans(self):
        self.fails(USAGE, ["compile", "dense.onnx", "--plan", "missing.twp"], "missing.twp")
        self.write("bad.twp", b"tilewright plan 2\nfrob\n")
        self.fails(USAGE, ["compile", "dense.onnx", "--plan", "bad.twp"], "frob")
        self.write("other.onnx", ob.model([ob.node("Softmax", ["x"], ["s"], "S", [("axis", -1)]), ob.node("MatMul", ["s", "w"], ["y"], "M")],
                                          [ob.value_info("x", [4, 3])], [ob.value_info("y", [4, 2])], [ob.tensor("w", [3, 2], [1] * 6)]))
        self.succeeds("compile", "other.onnx", "-o", "other.tw", "--plan-out", "other.twp")
        self.fails(USAGE, ["compile", "dense.onnx", "--plan", "other.twp"], "plan")
        self.write("empty.twp", b"")
        self.fails(USAGE, ["compile", "dense.onnx", "--plan", "empty.twp"], "empty.twp", "empty")
        self.fails(USAGE, ["compile", "dense.onnx", "--plan", "."], "regular file")
        plan = (self.folder / "other.twp").read_text()
        self.assertEqual(json.loads(self.succeeds("inspect", "other.twp", "--json").stdout)["plan"], plan)

    def test_what_is_read_is_not_overwritten(self):
        self.compiled()
        self.fails(USAGE, ["compile", "dense.onnx", "-o", "dense.onnx"], "dense.onnx", ".tw")
        self.fails(USAGE, ["compile", "dense.onnx", "--plan-out", "./dense.onnx"], "dense.onnx", "overwritten")
        self.fails(USAGE, ["compile", "dense.onnx", "-o", "a.tw", "--plan-out", "a.tw"], "--plan-out")
        self.fails(USAGE, ["run", "dense.tw", "--random", "seed=0", "--output", "y=@dense.tw"], "dense.tw", "overwritten")
        self.fails(USAGE, ["compile", "dense.onnx", "--explore=-1"], "--explore")

    def test_options_of_models_are_not_for_artefacts(self):
        self.compiled()
        for verb in ("run", "verify", "bench"):
            self.fails(USAGE, [verb, "dense.tw", "--target", "cuda:sm_90a"], "--target", "dense.tw", "compiled already")

    def test_names_with_control_characters(self):
        self.write("lines.onnx", ob.model([ob.node("Relu", ["x\n1"], ["y\0"], "first\nsecond\x1b[2J")], [ob.value_info("x\n1", [4])],
                                          [ob.value_info("y\0", [4])]))
        self.succeeds("compile", "lines.onnx", "-o", "lines.tw", "--plan-out", "lines.twp")
        self.assertIn("first_second_[2J", (self.folder / "lines.twp").read_text())
        self.succeeds("compile", "lines.onnx", "-o", "again.tw", "--plan", "lines.twp")
        self.succeeds("verify", "lines.tw")

    def test_places_that_cannot_be_written(self):
        self.fails(USAGE, ["compile", "dense.onnx", "-o", "missing/dense.tw"], "missing")
        (self.folder / "folder.tw").mkdir()
        self.fails(USAGE, ["compile", "dense.onnx", "-o", "folder.tw"], "folder.tw")
        self.fails(USAGE, ["compile", "dense.onnx", "--dump-ir", "dense.onnx"], "--dump-ir")

    def test_inputs_and_outputs_of_run(self):
        self.compiled()
        self.write("x.npy", npy([4, 3], range(12)))
        self.write("flat.npy", npy([12], range(12)))
        self.write("ints.npy", npy([4, 3], range(12), "<i8"))
        self.write("cut.npy", npy([4, 3], range(12))[:-1])
        self.fails(USAGE, ["run", "dense.tw"], "x", "f32[4,3]")
        self.fails(USAGE, ["run", "dense.tw", "--input", "z=@x.npy", "--random", "seed=0"], "z")
        self.fails(USAGE, ["run", "dense.tw", "--input", "x=x.npy"], "@")
        self.fails(USAGE, ["run", "dense.tw", "--input", "x=@flat.npy"], "x", "[12]", "[4,3]")
        self.fails(USAGE, ["run", "dense.tw", "--input", "x=@ints.npy"], "x", "i64", "f32")
        self.fails(USAGE, ["run", "dense.tw", "--input", "x=@cut.npy"], "cut.npy")
        for seed in ("many", "", "-1", "18446744073709551616"):
            self.fails(USAGE, ["run", "dense.tw", "--random", f"seed={seed}"], "--random", "seed=N")
        self.fails(USAGE, ["run", "dense.tw", "--input", "x=@x.npy", "--output", "z=@z.npy"], "z")
        self.fails(USAGE, ["run", "dense.tw", "--input", "x=@x.npy", "--output", "y=y.npy"], "@")
        self.fails(USAGE, ["run", "missing.tw", "--random", "seed=0"], "missing.tw")

    def test_open_dimensions_are_those_of_the_arrays(self):
        self.write("open.onnx", ob.dense(batch="batch"))
        self.write("x.npy", npy([2, 3], range(6)))
        for text in ("x=@x.npy", "x.npy"):
            self.succeeds("run", "open.onnx", "--no-measure", "--input", text, "--output", "y=@y.npy")
            self.assertEqual(npy_floats((self.folder / "y.npy").read_bytes()), ob.dense_reference(list(range(6)), m=2))
        self.write("wide.npy", npy([2, 4], range(8)))
        self.fails(MODEL, ["run", "open.onnx", "--no-measure", "--input", "x=@wide.npy"], "x", "2x4", "f32[batch,3]")
        self.fails(MODEL, ["run", "open.onnx", "--no-measure", "--random", "seed=0"], "--dim batch=1", "examples")

    def test_stale_shapes_and_orders_are_warnings(self):
        nodes = [ob.node("Relu", ["a"], ["y"], "late"), ob.node("Neg", ["x"], ["a"], "early")]
        self.write("stale.onnx", ob.model(nodes, [ob.value_info("x", [4])], [ob.value_info("y", [5])]))
        runs = ["run", "stale.onnx", "--no-measure", "--random", "seed=0"]
        for arguments in (["compile", "stale.onnx", "-o", "stale.tw", "--no-measure"], runs, runs):  # then from the cache
            said = self.succeeds(*arguments).stderr
            self.assertEqual(said.count("'y': the model declares f32[5], its inputs give f32[4]"), 1, said)
            self.assertIn("'late' (Relu)", said)

    def test_safetensors(self):
        self.compiled()
        def tensors(header, data):
            text = json.dumps(header).encode()
            return struct.pack("<Q", len(text)) + text + data
        data = struct.pack("<12f", *range(12))
        row = {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}
        self.write("x.safetensors", tensors({"__metadata__": {"format": "pt"}, "x": row}, data))
        self.succeeds("run", "dense.tw", "--input", "x.safetensors", "--output", "y=@y.npy")
        self.assertEqual(npy_floats((self.folder / "y.npy").read_bytes()), ob.dense_reference(list(range(12))))
        for bad in (b"", data[:4], tensors({"x": row}, data)[:-1], tensors({"x": {**row, "dtype": "F3"}}, data), tensors({"x": 1}, data),
                    tensors({"x": {**row, "shape": [2**40, 2**40]}}, data), tensors({"x": {**row, "data_offsets": [48, 0]}}, data)):
            self.write("bad.safetensors", bad)
            self.fails(USAGE, ["run", "dense.tw", "--input", "bad.safetensors"], "bad.safetensors")

    def test_npz(self):
        self.compiled()
        rows = npy([4, 3], range(12))
        def archive(compression, members):
            with zipfile.ZipFile(self.folder / "x.npz", "w", compression) as z:
                for name, data in members.items():
                    with z.open(name, "w", force_zip64=compression == zipfile.ZIP_STORED) as member:  # as numpy writes it
                        member.write(data)
            return (self.folder / "x.npz").read_bytes()
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            whole = archive(compression, {"other.npy": npy([1], [5]), "x.npy": rows})
            self.succeeds("run", "dense.tw", "--input", "x=@x.npz:x", "--output", "y=@y.npy")
            self.assertEqual(npy_floats((self.folder / "y.npy").read_bytes()), ob.dense_reference(list(range(12))))
            self.fails(USAGE, ["run", "dense.tw", "--input", "x=@x.npz:z"], "x.npz", "other", "x")
            for bad in (b"", whole[:30], whole[:-30], whole[:60] + bytes([whole[60] ^ 255]) + whole[61:]):
                self.write("bad.npz", bad)
                self.fails(USAGE, ["run", "dense.tw", "--input", "x=@bad.npz:x"], "bad.npz")
        size = struct.pack("<II", len(zlib.compress(rows)) - 6, len(rows))  # compressed, and not, as the list has them
        whole = archive(zipfile.ZIP_DEFLATED, {"x.npy": rows})
        self.assertEqual(whole.count(size), 2)  # beside the member, and in the list
        self.write("bad.npz", whole.replace(size, size[:4] + b"\xf0\xff\xff\xff"))
        self.fails(USAGE, ["run", "dense.tw", "--input", "x=@bad.npz:x"], "bad.npz")


def safetensors(tensors):
    """`tensors`: name -> (shape, values), f32."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        piece = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Refit(Case):
    W, B = [(i * 7 % 11) / 8 - 0.5 for i in range(15)], [0.5, -0.25, 1, 2, -3]

    def dense_of(self, w, b):
        nodes = [ob.node("MatMul", ["x", "w"], ["m"], "MatMul_0"), ob.node("Add", ["m", "b"], ["a"], "Add_0"), ob.node("Relu", ["a"], ["y"], "Relu_0")]
        return ob.model(nodes, [ob.value_info("x", [4, 3])], [ob.value_info("y", [4, 5])], [ob.tensor("w", [3, 5], w), ob.tensor("b", [5], b)])

    def setUp(self):
        super().setUp()
        self.write("other.onnx", self.dense_of(self.W, self.B))
        self.write("w.safetensors", safetensors({"w": ([3, 5], self.W), "b": ([5], self.B)}))
        self.compiled("dense.tw", "--plan-out", "dense.twp")

    def test_gives_what_a_compilation_gives(self):
        self.succeeds("compile", "other.onnx", "-o", "want.tw", "--plan", "dense.twp")
        want = (self.folder / "want.tw").read_bytes()
        for weights in ("w.safetensors", "other.onnx"):
            done = self.succeeds("refit", "dense.tw", "--weights", weights, "-o", "new.tw")
            self.assertIn("verified in", done.stdout)
            self.assertEqual((self.folder / "new.tw").read_bytes(), want)
        document = json.loads(self.succeeds("refit", "dense.tw", "--weights", "w.safetensors", "-o", "new.tw", "--no-verify", "--json").stdout)
        self.assertEqual((document["schema"], document["verified"], document["ok"]), ("tilewright.refit.v1", False, True))
        self.assertGreater(document["seconds"], 0)
        # In its own place, and from two files.
        self.write("b.safetensors", safetensors({"b": ([5], self.B)}))
        self.write("v.safetensors", safetensors({"w": ([3, 5], self.W)}))
        self.succeeds("refit", "dense.tw", "--weights", "b.safetensors", "--weights", "v.safetensors", "-o", "dense.tw")
        self.assertEqual((self.folder / "dense.tw").read_bytes(), want)

    def test_wrong_weights_are_refused_by_name(self):
        nan, infinite = [*self.W[:7], float("nan"), *self.W[8:]], [*self.B[:2], float("inf"), *self.B[3:]]
        for tensors, fragments in (({"w": ([3, 5], self.W)}, ["'b' (f32[5]) is missing"]),
                                   ({"w": ([5, 3], self.W), "b": ([5], self.B)}, ["'w' is f32[5,3], the model has f32[3,5]"]),
                                   ({"w": ([3, 5], nan), "b": ([5], infinite)}, ["2 of the weights", "'w' has a NaN at element 7", "'b' is infinite at element 2"]),
                                   ({"w": ([3, 5], self.W), "b": ([5], self.B), "c": ([1], [1.0])}, ["'c' is not an initializer"])):
            self.write("bad.safetensors", safetensors(tensors))
            self.fails(USAGE, ["refit", "dense.tw", "--weights", "bad.safetensors", "-o", "new.tw"], *fragments)
        self.write("bad.safetensors", b"bad")
        self.fails(USAGE, ["refit", "dense.tw", "--weights", "bad.safetensors", "-o", "new.tw"], "bad.safetensors")
        self.fails(USAGE, ["refit", "dense.tw", "--weights", "missing.safetensors", "-o", "new.tw"], "missing.safetensors")
        self.fails(USAGE, ["refit", "dense.tw", "--weights", "w.safetensors", "--weights", "w.safetensors", "-o", "new.tw"], "was given before")

    def test_usage(self):
        self.fails(USAGE, ["refit", "dense.tw", "--weights", "w.safetensors"], "--output")
        self.fails(USAGE, ["refit", "dense.tw", "-o", "new.tw"], "--weights")
        self.fails(USAGE, ["refit", "dense.onnx", "--weights", "w.safetensors", "-o", "new.tw"], "not an artefact")
        self.fails(USAGE, ["refit", "dense.tw", "--weights", "w.safetensors", "-o", "new.onnx"], ".tw")
        data = bytearray((self.folder / "dense.tw").read_bytes())
        data[150] ^= 1
        self.write("damaged.tw", bytes(data))
        self.fails(ARTEFACT, ["refit", "damaged.tw", "--weights", "w.safetensors", "-o", "new.tw"])

    def test_weights_that_want_other_code(self):
        self.write("zero.onnx", self.dense_of(self.W, [0] * 5))
        self.succeeds("compile", "zero.onnx", "-o", "zero.tw")
        self.fails(MODEL, ["refit", "zero.tw", "--weights", "w.safetensors", "-o", "new.tw"], "want other code")


class State(Case):
    def setUp(self):
        super().setUp()
        nodes = [ob.node("Add", ["total", "x"], ["next"], "Add_0"), ob.node("Neg", ["next"], ["y"], "Neg_0")]
        self.write("total.onnx", ob.model(nodes, [ob.value_info("x", [3]), ob.value_info("total", [3])], [ob.value_info("y", [3]), ob.value_info("next", [3])]))
        self.write("one.npy", npy([3], [1, 2, 3]))
        self.write("ten.npy", npy([3], [10, 20, 30]))

    def test_run_shows_what_is_kept(self):
        self.succeeds("compile", "total.onnx", "-o", "total.tw", "--state", "total=next")
        self.succeeds("run", "total.tw", "--input", "x=@one.npy", "--output", "total=@a.npy", "--output", "y=@y.npy")
        self.assertEqual(npy_floats((self.folder / "a.npy").read_bytes()), [1, 2, 3])
        self.succeeds("run", "total.tw", "--input", "x=@one.npy", "--input", "total=@ten.npy", "--output", "total=@a.npy")
        self.assertEqual(npy_floats((self.folder / "a.npy").read_bytes()), [11, 22, 33])
        self.succeeds("verify", "total.tw")
        self.succeeds("verify", "total.onnx", "--state", "total=next")
        manifest = json.loads(self.succeeds("inspect", "total.tw", "--json").stdout)["manifest"]
        self.assertEqual([s["tensor"]["name"] for s in manifest["states"]], ["total"])
        self.assertEqual([t["name"] for t in manifest["entries"][0]["inputs"]], ["x"])

    def test_begins_with_a_file(self):
        self.succeeds("compile", "total.onnx", "-o", "total.tw", "--state", "total=next=@ten.npy")
        self.succeeds("run", "total.tw", "--input", "x=@one.npy", "--output", "total=@a.npy")
        self.assertEqual(npy_floats((self.folder / "a.npy").read_bytes()), [11, 22, 33])

    def check_order(self, compile_model):
        """A state is stored as convolutions read it, and nobody sees that: there are the numbers that there are without."""
        shape, count = [1, 32, 14, 14], 32 * 14 * 14
        self.write("cell.onnx", ob.recurrent())
        self.write("x.npy", npy(shape, [i * 53 % 97 % 9 - 4 for i in range(count)]))
        self.write("h.npy", npy(shape, [i * 29 % 89 % 9 - 4 for i in range(count)]))
        compile_model("cell.onnx", "plain.tw", "--precision", "strict", "--no-measure")
        compile_model("cell.onnx", "cell.tw", "--precision", "strict", "--no-measure", "--state", "h=h.next=@h.npy")
        (state,) = json.loads(self.succeeds("inspect", "cell.tw", "--json").stdout)["manifest"]["states"]
        self.assertEqual(state["order"], [0, 2, 3, 1])
        self.assertIn("state  h: f32[1,32,14,14], becomes h.next, dims stored as [0,2,3,1]", self.succeeds("inspect", "cell.tw").stdout)
        self.succeeds("verify", "cell.tw")
        both = ["--input", "x=@x.npy", "--input", "h=@h.npy"]
        self.succeeds("run", "plain.tw", *both, "--output", "h.next=@want.npy")
        for inputs in both, both[:2]:  # the initial values are those of h.npy
            self.succeeds("run", "cell.tw", *inputs, "--output", "h=@got.npy")
            self.assertEqual((self.folder / "got.npy").read_bytes(), (self.folder / "want.npy").read_bytes())

    def test_rows_however_it_is_stored(self):
        self.check_order(lambda model, artefact, *options: self.succeeds("compile", model, "-o", artefact, *options))

    def test_a_state_on_a_gpu(self):
        self.check_order(self.compile_for_gpu)

    def test_wrong_pairs(self):
        for text, fragments in (("total", ["--state", "total"]), ("total=", ["INPUT=OUTPUT"]), ("sum=next", ["no input 'sum'"]),
                                ("total=last", ["no output 'last'"]), ("total=next=@missing.npy", ["missing.npy"])):
            self.fails(USAGE, ["compile", "total.onnx", "--state", text], *fragments)


class Models(Case):
    def test_files_that_are_no_model(self):
        self.fails(USAGE, ["compile", "missing.onnx"], "missing.onnx", "No such file")
        (self.folder / "folder.onnx").mkdir()
        self.fails(USAGE, ["compile", "folder.onnx"], "folder.onnx", "not a regular file")
        self.write("empty.onnx", b"")
        self.fails(MODEL, ["compile", "empty.onnx"], "empty.onnx")
        self.write("noise.onnx", random.Random(1).randbytes(999))
        self.fails(MODEL, ["compile", "noise.onnx"], "noise.onnx")
        whole = ob.dense()
        for size in (1, len(whole) // 2, len(whole) - 1):
            self.write("cut.onnx", whole[:size])
            self.fails(MODEL, ["compile", "cut.onnx"], "cut.onnx")

    def test_operators(self):
        x, y = ob.value_info("x", [4]), ob.value_info("y", [4])
        self.write("m.onnx", ob.model([ob.node("Frobnicate", ["x"], ["f"], "F1"), ob.node("Twiddle", ["f"], ["y"], "T1", domain="my.ops")], [x], [y]))
        self.fails(MODEL, ["compile", "m.onnx"], "Frobnicate", "F1", "Twiddle", "T1", "my.ops")
        self.write("m.onnx", ob.model([ob.node("Add", ["x", "w"], ["y"], "Add_7")], [x], [y], [ob.tensor("w", [3], [1, 2, 3])]))
        self.fails(MODEL, ["compile", "m.onnx"], "Add_7", "[4]", "[3]")
        self.write("m.onnx", ob.model([ob.node("Relu", ["nothing"], ["y"], "R")], [x], [y]))
        self.fails(MODEL, ["compile", "m.onnx"], "nothing")
        self.write("m.onnx", ob.model([ob.node("Relu", ["x"], ["y"], "R")], [x], [y], opset=999))
        self.fails(MODEL, ["compile", "m.onnx"], "999")

    def test_shapes(self):
        self.fails(MODEL, ["compile", "dense.onnx", "--shape", "x:1x2"], "--shape", "x", "[4,3]")
        self.fails(MODEL, ["compile", "dense.onnx", "--shape", "x:"], "--shape", "x")
        self.fails(MODEL, ["compile", "dense.onnx", "--shape", "frob:4x3"], "frob", "x")
        self.write("dynamic.onnx", ob.dense(batch="batch"))
        self.fails(MODEL, ["compile", "dynamic.onnx"], "batch", "--dim")
        self.succeeds("compile", "dynamic.onnx", "--dim", "batch=5")
        self.succeeds("compile", "dynamic.onnx", "--shape", "x:5x3")

    def test_external_data(self):
        def external(location, offset=0, length=None):
            w = ob.external_tensor("w", [3, 2], location, offset, length)
            return ob.model([ob.node("MatMul", ["x", "w"], ["y"], "M")], [ob.value_info("x", [4, 3])], [ob.value_info("y", [4, 2])], [w])

        self.write("m.onnx", external("w.bin"))
        self.fails(MODEL, ["compile", "m.onnx"], "w.bin")
        self.write("w.bin", bytes(24))
        self.succeeds("compile", "m.onnx", "-o", "good.tw")
        self.write("m.onnx", external("w.bin", length=25))
        self.fails(MODEL, ["compile", "m.onnx"], "w")
        self.write("m.onnx", external("w.bin", offset=4))
        self.fails(MODEL, ["compile", "m.onnx"], "w")
        self.write("outside.bin", bytes(24))
        self.write("inner/m.onnx", external("../outside.bin"))
        self.fails(MODEL, ["compile", "inner/m.onnx"], "outside.bin")
        self.write("m.onnx", external(str(self.folder / "w.bin")))
        self.fails(MODEL, ["compile", "m.onnx"], "w.bin")
        os.symlink("/etc/passwd", self.folder / "link.bin")
        self.write("m.onnx", external("link.bin"))
        self.fails(MODEL, ["compile", "m.onnx"], "link.bin")


class Artefacts(Case):
    def test_damage_is_refused(self):
        whole = self.compiled().read_bytes()
        rng = random.Random(2)
        places = [0, 8, 12, 16, 24, 63, 64, 96, 4096, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(20))]
        for place in places:
            bad = bytearray(whole)
            bad[place] ^= 1 << rng.randrange(8)
            self.write("bad.tw", bytes(bad))
            self.fails(ARTEFACT, ["run", "bad.tw", "--random", "seed=0"], "bad.tw")
        self.fails(ARTEFACT, ["inspect", "bad.tw"], "bad.tw")
        self.fails(ARTEFACT, ["bench", "bad.tw"], "bad.tw")

    def test_truncation_is_refused(self):
        whole = self.compiled().read_bytes()
        for size in (0, 1, 63, 96, 4095, 4096, len(whole) // 2, len(whole) - 1):
            self.write("bad.tw", whole[:size])
            self.fails(ARTEFACT, ["run", "bad.tw", "--random", "seed=0"], "bad.tw")
        self.write("bad.tw", whole + b"\0")
        self.fails(ARTEFACT, ["run", "bad.tw", "--random", "seed=0"], "bad.tw")

    def test_other_files(self):
        self.write("model.tw", ob.dense())
        self.fails(ARTEFACT, ["run", "model.tw", "--random", "seed=0"], "model.tw")

    def test_an_artefact_for_a_device_that_is_not_there(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is an NVIDIA GPU")
        done = self.run_command("compile", "dense.onnx", "-o", "gpu.tw", "--target", "cuda:sm_90a")
        if done.returncode == MODEL:  # this build or this machine has no NVRTC
            self.assertIn("unsupported", done.stderr)
            self.skipTest(done.stderr)
        self.fails(ARTEFACT, ["run", "gpu.tw", "--random", "seed=0"], "gpu.tw", "NVIDIA")
        self.fails(ARTEFACT, ["bench", "gpu.tw"], "gpu.tw", "NVIDIA")
        self.fails(USAGE, ["bench", "gpu.tw", "--peak"], "--peak")
        self.assertIn("sm_90a", self.succeeds("inspect", "gpu.tw").stdout)
        self.fails(ARTEFACT, ["explain", "gpu.tw"], "gpu.tw", "NVIDIA")
        text = self.succeeds("explain", "gpu.tw", "--no-run", "--entry", "main").stdout
        self.assertIn("code for sm_90a; bounds from machine parameters (defaults of sm_90a)", text)
        self.assertIn("not cutlass:", text)
        self.fails(USAGE, ["explain", "gpu.tw", "--no-run", "--entry", "other"], "'other'", "main")
        self.check_reasons("gpu.tw")

    def check_reasons(self, artefact):
        text = self.succeeds("explain", artefact, "--no-run", "--why").stdout
        self.assertIn(" fused (epilogue): ", text)
        document = json.loads(self.succeeds("explain", artefact, "--no-run", "--why", "--json").stdout)
        self.assertTrue(document["edges"] and document["values"])
        for reason in document["edges"] + document["values"]:
            self.assertTrue(reason["rule"] and reason["reason"], reason)
            self.assertNotEqual(reason["rule"], "off", reason)
        self.assertTrue(all("value_bytes" in reason["numbers"] for reason in document["edges"] + document["values"]))
        self.assertTrue(all(edge["to_value"] for edge in document["edges"]))
        for group in document["groups"]:
            if group["family"] != "view":
                self.assertGreaterEqual(group["moved_bytes"], group["bound_bytes"], group)

    def test_reasons_of_a_compiled_model(self):
        self.succeeds("compile", "dense.onnx", "-o", "why.tw", "--no-measure")
        self.check_reasons("why.tw")

    def test_reasons_of_the_groups_that_are_asked_for(self):
        self.succeeds("compile", "dense.onnx", "-o", "apart.tw", "--no-measure", "--disable-pass", "fuse", "--disable-pass", "fuse-outputs")
        whole = json.loads(self.succeeds("explain", "apart.tw", "--no-run", "--why", "--json").stdout)
        document = json.loads(self.succeeds("explain", "apart.tw", "--no-run", "--why", "--json", "--group", "Relu", "--top", "1").stdout)
        (group,) = document["groups"]
        self.assertEqual(document["edges"], [e for e in whole["edges"] if e["to_group"] == group["name"]])
        self.assertLess(len(document["edges"]), len(whole["edges"]))
        self.assertEqual(sorted(v["value"] for v in document["values"]), sorted(group["reads"] + group["computes"]))

    def test_a_model_on_a_gpu(self):
        self.compile_for_gpu("dense.onnx", "gpu.tw")
        self.succeeds("verify", "gpu.tw")
        x = [(i * 5) % 7 - 3 for i in range(12)]
        self.write("x.npy", npy([4, 3], x))
        self.succeeds("run", "gpu.tw", "--input", "x=@x.npy", "--output", "y=@y.npy")
        self.assertEqual(npy_floats((self.folder / "y.npy").read_bytes()), ob.dense_reference(x))
        bench = json.loads(self.succeeds("bench", "gpu.tw", "--duration", "0", "--json").stdout)
        self.assertEqual(bench["inputs_on"], "device")
        self.assertGreater(bench["latency_ms"]["min"], 0)
        self.assertIn("MatMul", self.succeeds("bench", "gpu.tw", "--duration", "0", "--profile").stdout)

    def test_code_for_an_earlier_gpu(self):
        """On a later one by what the driver makes of its PTX: measured, verified, run, timed and explained there."""
        self.compile_for_gpu("dense.onnx", "gpu.tw", target="cuda:sm_80")
        self.succeeds("verify", "gpu.tw")
        x = [(i * 5) % 7 - 3 for i in range(12)]
        self.write("x.npy", npy([4, 3], x))
        self.succeeds("run", "gpu.tw", "--input", "x=@x.npy", "--output", "y=@y.npy")
        self.assertEqual(npy_floats((self.folder / "y.npy").read_bytes()), ob.dense_reference(x))
        self.assertGreater(json.loads(self.succeeds("bench", "gpu.tw", "--duration", "0", "--json").stdout)["latency_ms"]["min"], 0)
        self.assertIn("us now", self.succeeds("explain", "gpu.tw").stdout)

    def test_same_bytes_every_time(self):
        first = self.compiled("a.tw", "--plan-out", "a.twp").read_bytes()
        self.assertEqual(first, self.compiled("b.tw").read_bytes())
        self.assertEqual(first, self.compiled("c.tw", "--plan", "a.twp").read_bytes())


class Results(Case):
    def test_run_and_verify(self):
        x = [(i * 5) % 7 - 3 for i in range(12)]
        want = ob.dense_reference(x)
        self.write("x.npy", npy([4, 3], x))
        self.compiled()
        for model in ("dense.tw", "dense.onnx"):
            self.succeeds("run", model, "--input", "x=@x.npy", "--output", "y=@y.npy", "--output-dir", "out")
            self.assertEqual(npy_floats((self.folder / "y.npy").read_bytes()), want)
            self.assertEqual((self.folder / "y.npy").read_bytes(), (self.folder / "out/y.npy").read_bytes())
        self.succeeds("verify", "dense.onnx", "--input", "x=@x.npy")
        for change, code in ((0, 0), (1, MISMATCH)):
            with zipfile.ZipFile(self.folder / "want.npz", "w") as file:
                file.writestr("y.npy", npy([4, 5], [want[0] + change, *want[1:]]))
            done = self.run_command("verify", "dense.tw", "--input", "x=@x.npy", "--against", "want.npz")
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"y: .*; (all digits agree|the largest error is [^;]* of the numbers, [0-9.]+: .* agrees?)$")

    def test_json_is_one_document(self):
        self.compiled()
        commands = {
            "compile": ["compile", "dense.onnx", "-o", "j.tw"],
            "run": ["run", "dense.tw", "--random", "seed=0"],
            "bench": ["bench", "dense.tw", "--duration", "0", "--warm-up", "0"],
            "verify": ["verify", "dense.onnx"],
            "inspect": ["inspect", "dense.tw"],
            "doctor": ["doctor"],
        }
        for verb, words in [*commands.items(), ("inspect", ["inspect", "dense.onnx"])]:
            for place in ([*words, "--json"], ["--json", *words]):
                with self.subTest(words=place):
                    document = json.loads(self.succeeds(*place).stdout)  # fails on a second document or stray text
                    self.assertEqual(document["schema"], f"tilewright.{verb}.v1")
        self.fails(USAGE, ["compile", "missing.onnx", "--json"], "missing.onnx")
        bench = json.loads(self.succeeds(*commands["bench"], "--json").stdout)
        self.assertEqual(bench["inputs_on"], "host")
        latency = bench["latency_ms"]
        self.assertEqual(sorted(latency), sorted(["min", "p10", "median", "mean", "p90", "p95", "p99", "max", "n"]))
        self.assertGreaterEqual(latency["n"], 10)

    def test_examples_of_the_help_run(self):
        self.write("resnet50.onnx", ob.dense())
        # Without CUTLASS's headers, which would keep nvcc busy for minutes.
        environment = {**os.environ, "PATH": f"{pathlib.Path(TILEWRIGHT).parent}:{os.environ['PATH']}",
                       "TILEWRIGHT_CACHE_DIR": str(self.folder / "cache"), "TILEWRIGHT_DB": str(self.folder / "tuning.db"),
                       "TILEWRIGHT_CUTLASS": str(self.folder)}
        for verb in ([], ["compile"], ["run"], ["bench"], ["verify"], ["inspect"], ["doctor"], ["cache"], ["cache", "status"], ["cache", "path"],
                     ["cache", "prune"], ["db"], ["db", "status"], ["db", "export"], ["db", "import"], ["db", "merge"], ["templates"], ["templates", "build"], ["templates", "list"]):
            text = self.succeeds(*verb, "-h").stdout
            example = re.match(r"Example: (tilewright .*)", text)
            self.assertIsNotNone(example, f"{verb}: {text}")
            done = subprocess.run(example.group(1), shell=True, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)
            if verb == ["templates", "build"]:
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"'{self.folder}' holds no cutlass/cutlass.h", done.stderr)
                continue
            self.assertEqual(done.returncode, 0, f"{example.group(1)}\n{done.stdout}{done.stderr}")
        self.assertRegex(self.succeeds("--version").stdout, r"^tilewright \d+\.\d+\.\d+\n$")

    def test_templates_where_no_folder_can_be(self):
        self.write("nvcc", b"#!/bin/sh\necho V1\n").chmod(0o755)
        self.write("include/cutlass/cutlass.h", b"")
        words = ["templates", "build", "--only", "gemm_sm90_64x64x64_pingpong_1x1", "--epilogue", "none",
                 "--nvcc", str(self.folder / "nvcc"), "--headers", str(self.folder / "include")]
        self.fails(EXHAUSTED, [*words, "--folder", "dense.onnx"], "cannot make a folder in 'dense.onnx': Not a directory")
        done = self.run_command(*words, "--folder", "library", env={**os.environ, "TMPDIR": "/nowhere"})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("defect", done.stderr)
        self.fails(USAGE, [*words, "--jobs", "0"], "--jobs 0: expected 1 to 1024")

    def test_which_templates_are_meant(self):
        def names(*options):
            done = self.succeeds("templates", "list", "--folder", str(self.folder), "--json", *options)
            return [row["template"] for row in json.loads(done.stdout)["templates"]]
        default = names()
        self.assertEqual(len(default), len(set(default)))
        self.assertEqual({name.split()[1] for name in default if "_sm90_" in name},
                         {"none", "bias", "bias_relu", "bias_residual_relu", "none_by_columns", "none_3d"})
        self.assertEqual({name.split()[1] for name in default if "_sm80_" in name}, {"none_8_bytes", "none_4_bytes"})
        self.assertEqual({name.split()[1] for name in names("--dtype", "tf32") if name.startswith("gemm_sm90")},
                         {"none", "bias", "bias_relu", "bias_residual_relu"})
        self.assertEqual(names("--only", "gemm_sm80_128x128x32_2x2_4", "--epilogue", "none_f32"), ["gemm_sm80_128x128x32_2x2_4 none_f32"])
        self.assertEqual({name.split("_")[1] for name in names("--target", "cuda:sm_80")}, {"sm80"})


class Kept(Case):
    """What is kept between compilations: artefacts in the cache, times in the database."""

    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"
        self.environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(self.state / "cache"), "TILEWRIGHT_DB": str(self.state / "tuning.db")}
        del self.environment["TILEWRIGHT_NO_MEASURE"]

    def keeps(self, *words):
        return self.succeeds(*words, env=self.environment)

    def compile(self, name, *options):
        return json.loads(self.keeps("compile", "dense.onnx", "-o", name, "--json", *options).stdout)

    def test_the_second_compilation_is_a_copy(self):
        first = self.compile("a.tw")
        again = self.compile("b.tw", "--plan-out", "b.twp")
        self.assertFalse(first["cached"])
        self.assertTrue(again["cached"])
        for document in (first, again):
            self.assertEqual(document["profiling"]["compilations"], {"kernels": 0, "templates": 0, "references": 0})
            self.assertEqual(document["padding"]["kernels"], 0)
        self.assertEqual(again["profiling"]["candidates"], 0)
        same = {"target", "entries", "groups", "kernels", "families", "bytes"}
        self.assertEqual({k: first[k] for k in same}, {k: again[k] for k in same})
        self.assertEqual((self.folder / "a.tw").read_bytes(), (self.folder / "b.tw").read_bytes())
        self.compile("c.tw", "--no-cache", "--plan-out", "c.twp")
        self.assertEqual((self.folder / "b.twp").read_bytes(), (self.folder / "c.twp").read_bytes())
        self.assertEqual((self.folder / "a.tw").read_bytes(), (self.folder / "c.tw").read_bytes())
        self.assertIn("from the cache", self.keeps("compile", "dense.onnx", "-o", "d.tw", "-vv").stdout)
        self.write("x.npy", npy([4, 3], range(12)))
        for model in ("dense.onnx", "b.tw"):
            self.keeps("run", model, "--input", "x=@x.npy", "--output", "y=@y.npy")
            self.assertEqual(npy_floats((self.folder / "y.npy").read_bytes()), ob.dense_reference(list(range(12))))

    def test_what_changes_the_artefact_is_no_hit(self):
        self.compile("a.tw")
        for options in (["--no-measure"], ["--target", "cpu:x86-64-v3"], ["--disable-pass", "fuse"], ["--time-passes"], ["--no-cache"]):
            if options == ["--target", json.loads(self.keeps("doctor", "--json").stdout)["target"]]:
                continue
            self.assertFalse(self.compile("b.tw", *options)["cached"], options)
        self.write("dense.onnx", ob.dense(k=4))
        self.assertFalse(self.compile("b.tw")["cached"])

    def test_a_damaged_entry_is_compiled_anew(self):
        self.compile("a.tw")
        (entry,) = (self.state / "cache" / "artefacts").glob("*.tw")
        entry.write_bytes(b"x" + entry.read_bytes()[1:])
        done = self.keeps("compile", "dense.onnx", "-o", "b.tw", "--json")
        self.assertIn("damaged", done.stderr)
        self.assertFalse(json.loads(done.stdout)["cached"])
        self.assertEqual((self.folder / "a.tw").read_bytes(), (self.folder / "b.tw").read_bytes())
        self.assertTrue(self.compile("c.tw")["cached"])

    def test_cache_verb(self):
        self.compile("a.tw")
        status = json.loads(self.keeps("cache", "status", "--json").stdout)
        self.assertEqual(status["entries"], 1)
        self.assertGreater(status["bytes"], (self.folder / "a.tw").stat().st_size)
        self.assertEqual(self.keeps("cache", "path").stdout.strip(), status["folder"])
        self.assertIn("1 artefact ", self.keeps("cache", "status").stdout)
        if os.getuid() != 0:
            kept = pathlib.Path(status["folder"])
            kept.chmod(0o500)
            self.assertEqual(json.loads(self.keeps("cache", "prune", "--json").stdout)["removed"], 0)
            kept.chmod(0o700)
        self.assertEqual(json.loads(self.keeps("cache", "prune", "--json").stdout)["removed"], 1)
        self.assertEqual(json.loads(self.keeps("cache", "status", "--json").stdout)["entries"], 0)
        self.fails(USAGE, ["cache", "prune", "--max-size", "lots"], "--max-size", "lots")
        self.fails(USAGE, ["cache"], "Usage: tilewright cache ACTION")

    def test_db_verb(self):
        status = json.loads(self.keeps("db", "status", "--json").stdout)
        self.assertEqual((status["path"], status["tasks"]), (str(self.state / "tuning.db"), 0))
        self.assertEqual(json.loads(self.keeps("db", "export", "t.ndjson", "--json").stdout)["records"], 0)
        record = {"program": "p", "environment": "e", "family": "f", "layouts": "", "schedule": "s", "predicted_us": 1.5, "outcome": "measured",
                  "reason": "", "best_us": 2.5, "median_us": 3, "samples": 12, "quiet_share": 0.5}
        lines = [{"schema": "tilewright.tuning.v1"}, record, {**record, "schedule": "t", "outcome": "crashed", "reason": "signal 11"}]
        self.write("in.ndjson", "".join(json.dumps(line) + "\n" for line in lines).encode())
        for added in (2, 0):
            document = json.loads(self.keeps("db", "import", "in.ndjson", "--json").stdout)
            self.assertEqual((document["added"], document["known"]), (added, 2 - added))
        status = json.loads(self.keeps("db", "status", "--json").stdout)
        self.assertEqual((status["tasks"], status["measured"], status["quarantined"]), (1, 1, 1))
        self.keeps("db", "export", "t.ndjson")
        records = [{**line, "is_rough": False} for line in lines[1:]]
        self.assertEqual([json.loads(line) for line in (self.folder / "t.ndjson").read_text().splitlines()],
                         [{"schema": "tilewright.tuning.v2"}, *records])
        other = str(self.folder / "other.db")
        self.assertEqual(json.loads(self.keeps("db", "import", "t.ndjson", "--db", other, "--json").stdout)["added"], 2)
        self.assertEqual(json.loads(self.keeps("db", "merge", other, "--json").stdout)["known"], 2)
        os.remove(self.state / "tuning.db")
        self.assertEqual(json.loads(self.keeps("db", "merge", other, "--json").stdout)["added"], 2)

    def test_bad_records_and_databases(self):
        def refuses(code, words, *fragments):
            done = self.run_command(*words, env=self.environment)
            self.assertEqual(done.returncode, code, done.stderr)
            for fragment in fragments:
                self.assertIn(fragment, done.stderr)
        self.write("bad.ndjson", b'{"schema": "tilewright.tuning.v1"}\n{"program": "p"}\n')
        refuses(USAGE, ["db", "import", "bad.ndjson"], "bad.ndjson", "line 2")
        for text in (b"", b"noise", b'{"schema": "frob"}\n'):
            self.write("bad.ndjson", text)
            refuses(USAGE, ["db", "import", "bad.ndjson"], "bad.ndjson")
        refuses(USAGE, ["db", "import", "missing.ndjson"], "missing.ndjson")
        refuses(USAGE, ["db", "merge", "missing.db"], "missing.db")
        self.write("noise.db", b"noise" * 100)
        refuses(USAGE, ["db", "merge", "noise.db"], "noise.db")
        refuses(EXHAUSTED, ["db", "status", "--db", str(self.folder / "dense.onnx" / "x.db")], "x.db")
        self.state.mkdir(exist_ok=True)
        (self.state / "tuning.db").write_bytes(b"noise" * 100)
        for suffix in ("-wal", "-shm"):
            (self.state / f"tuning.db{suffix}").unlink(missing_ok=True)
        self.write("wide.onnx", ob.dense(m=64, k=256, n=256))  # is measured, and asks the database
        done = self.keeps("compile", "wide.onnx", "-o", "a.tw", "--measure-threads", "1")
        self.assertIn("damaged", done.stderr)
        self.assertEqual((self.state / "tuning.db.damaged").read_bytes(), b"noise" * 100)
        # What never was a database stays where it is.
        refuses(EXHAUSTED, ["db", "status", "--db", "dense.onnx"], "dense.onnx", "not used", "not a database")
        self.assertEqual((self.folder / "dense.onnx").read_bytes(), ob.dense())

    def test_several_compilations_at_once(self):
        processes = [subprocess.Popen([TILEWRIGHT, "compile", "dense.onnx", "-o", f"{i}.tw"], cwd=self.folder, env=self.environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in range(4)]
        for process in processes:
            text, _ = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, text)
        self.assertEqual(len({(self.folder / f"{i}.tw").read_bytes() for i in range(4)}), 1)
        self.assertEqual(json.loads(self.keeps("cache", "status", "--json").stdout)["entries"], 1)

    def test_candidates_are_measured_and_remembered(self):
        self.write("dense.onnx", ob.dense(m=64, k=256, n=256))
        first = self.compile("a.tw", "--no-cache", "--plan-out", "a.twp", "--events", "a.ndjson", "--measure-threads", "1")
        self.assertIn("  time ", (self.folder / "a.twp").read_text())
        events = [json.loads(line) for line in (self.folder / "a.ndjson").read_text().splitlines()]
        candidates = [e for e in events if "candidate" in e]
        self.assertGreater(len(candidates), 1)
        self.assertEqual({e["outcome"] for e in candidates}, {"measured"})
        self.assertIn("measure", {e.get("phase") for e in events})
        status = json.loads(self.keeps("db", "status", "--json").stdout)
        self.assertEqual((status["tasks"], status["measured"]), (1, len(candidates)))
        self.compile("b.tw", "--no-cache", "--events", "b.ndjson", "--measure-threads", "1")
        self.assertNotIn("candidate", (self.folder / "b.ndjson").read_text())
        self.assertEqual((self.folder / "a.tw").read_bytes(), (self.folder / "b.tw").read_bytes())
        self.compile("c.tw", "--no-measure", "--plan-out", "c.twp")
        self.assertNotIn("  time ", (self.folder / "c.twp").read_text())
        self.keeps("verify", "a.tw")
        self.assertGreater(first["groups"], 0)

    def measuring(self, *options):
        """A compilation that has begun to measure a group, with many more to come."""
        layers = 40
        nodes, tensors = [], []
        for i in range(layers):
            nodes.append(ob.node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], f"M{i}"))
            tensors.append(ob.tensor(f"w{i}", [200 + i, 201 + i], [1] * (200 + i) * (201 + i)))
        self.write("deep.onnx", ob.model(nodes, [ob.value_info("x0", [64, 200])], [ob.value_info(f"x{layers}", [64, 200 + layers])], tensors))
        process = subprocess.Popen([TILEWRIGHT, "compile", "deep.onnx", "-o", "deep.tw", "--events", "e.ndjson", "-v", *options], cwd=self.folder,
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        deadline = time.monotonic() + 120
        while '"candidate"' not in (self.folder / "e.ndjson").read_text() if (self.folder / "e.ndjson").exists() else True:
            self.assertIsNone(process.poll(), "it ended before it measured anything")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return process

    def test_an_interrupt_keeps_the_best_so_far(self):
        process = self.measuring()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the compiler and whatever it started
        text, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, text)
        self.succeeds("run", "deep.tw", "--random", "seed=0")
        measured = len(re.findall(r"(?m)^  \S+ +M\d+ [0-9.]+ us", text))
        self.assertGreater(measured, 0, text)
        self.assertLess(measured, 40, text)
        stopped = re.search(r"measuring stopped after (\d+) of (\d+) groups; the other (\d+) keep the predicted choice; run the same command again", text)
        self.assertIsNotNone(stopped, text)
        done, total, left = map(int, stopped.groups())
        self.assertEqual(done + left, total)
        self.assertLess(done, total)
        self.assertEqual(json.loads(self.keeps("cache", "status", "--json").stdout)["entries"], 0, "an unfinished search was cached")

    def test_a_second_interrupt_ends_the_command(self):
        process = self.measuring()
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGINT)
        text, _ = process.communicate(timeout=120)
        if process.returncode != 0:  # unless it finished between the two
            self.assertEqual(process.returncode, 130, text)
            self.assertFalse((self.folder / "deep.tw").exists())
        self.assertEqual([p.name for p in self.folder.iterdir() if ".tmp." in p.name], [])

    def test_the_budget_bounds_the_time(self):
        start = time.monotonic()
        process = self.measuring("--budget", "3s", "--json")
        text, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, text)
        self.assertLess(time.monotonic() - start, 60)
        events = [json.loads(line) for line in (self.folder / "e.ndjson").read_text().splitlines()]
        self.assertLess(len({e["group"] for e in events if "group" in e}), 40)

    def test_options(self):
        for text in ("soon", "-3s", "0", "10 parsecs"):
            self.fails(USAGE, ["compile", "dense.onnx", f"--budget={text}"], "--budget", text)
        self.fails(USAGE, ["compile", "dense.onnx", "--measure-threads", "-1"], "--measure-threads")
        self.compile("a.tw", "--budget", "2m", "--measure-threads", "1")
        self.fails(USAGE, ["worker"], "socket")


class MachineParameters(Case):
    """Measured parameters of this machine: shown by doctor, used by compile, kept in a file."""

    @classmethod
    def setUpClass(cls):
        """Measures once for all tests that start from a file."""
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.kept = pathlib.Path(temporary.name) / "not" / "there" / "yet"
        environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(cls.kept)}
        cls.first = subprocess.run([TILEWRIGHT, "doctor"], env=environment, capture_output=True, text=True, timeout=300)

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        shutil.copytree(self.kept, self.cache)
        self.environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(self.cache)}

    def file(self):
        (found,) = self.cache.glob("machine-*.json")
        return found

    def measured(self, *words):
        return self.succeeds(*words, env=self.environment)

    def test_measured_once(self):
        self.assertIn("measuring this machine once", self.first.stderr)
        kept = self.file().read_bytes()
        commands = (["compile", "dense.onnx", "-o", "a.tw"], ["compile", "dense.onnx", "-o", "b.tw"], ["verify", "dense.onnx"], ["doctor"])
        for words in commands:
            self.assertNotIn("measuring", self.measured(*words).stderr)
        self.assertEqual((self.folder / "a.tw").read_bytes(), (self.folder / "b.tw").read_bytes())
        self.assertEqual(self.file().read_bytes(), kept)
        again = self.measured("doctor", "--remeasure")
        self.assertIn("measuring this machine", again.stderr)
        self.assertEqual(json.loads(self.file().read_text())["machine"], json.loads(kept)["machine"])

    def test_doctor_shows_all(self):
        document = json.loads(self.measured("doctor", "--json").stdout)
        figures = document["figures"]
        self.assertTrue(figures["from"].startswith("measured on "), figures["from"])
        self.assertEqual(document["figures_file"], str(self.file()))
        self.assertEqual(figures["fma_peaks"][-1]["vector_bytes"], document["vector_bytes"])
        for peak in figures["fma_peaks"]:
            self.assertGreater(peak["gflops"], 0)
            self.assertGreaterEqual(peak["gflops_all"], peak["gflops"])
            self.assertGreater(peak["clock_ghz"], 0)
        self.assertGreater(figures["fork_join_ns"], 0)
        self.assertGreater(figures["barrier_ns"], 0)
        levels = figures["levels"]
        self.assertEqual(levels[-1]["name"], "DRAM")
        for nearer, level in zip(levels, levels[1:]):
            self.assertGreater(level["capacity_bytes"], nearer["capacity_bytes"])
            self.assertGreaterEqual(level["latency_ns"], nearer["latency_ns"])
            for kind in ("read", "write", "copy", "read_all"):
                self.assertLessEqual(level["gb_s"][kind], nearer["gb_s"][kind], kind)
            self.assertEqual(list(level["gb_s"]["read_chunks"]), ["64", "128", "256", "512", "1024", "4096"])
        text = self.measured("doctor").stdout
        self.assertIn(figures["from"], text)
        self.assertEqual(list(document["gpus"]), ["cuda:sm_80", "cuda:sm_90a"])
        for target, gpu in document["gpus"].items():  # its name, or why there is none
            self.assertRegex(text, rf"(?m)^  {target} +(yes: |no: |no, for the same reason)")
            self.assertNotEqual(gpu, "")
        self.assertIn(" ".join(document["gpus"]["cuda:sm_80"].split()), " ".join(text.split()))
        for level in levels:
            self.assertRegex(text, rf"(?m)^ +{level['name']} .* {re.escape(format(level['gb_s']['read'], 'g'))} ")

    def test_a_damaged_file_is_measured_anew(self):
        path = self.file()
        whole = path.read_bytes()
        path.write_bytes(whole[:-100])
        done = self.measured("compile", "dense.onnx", "-o", "a.tw")
        self.assertIn(str(path), done.stderr)
        self.assertIn("measuring", done.stderr)
        self.assertEqual(len(json.loads(path.read_text())["figures"]["levels"]), len(json.loads(whole)["figures"]["levels"]))

    def test_no_folder_means_defaults(self):
        self.environment["TILEWRIGHT_CACHE_DIR"] = "/dev/null"
        done = self.measured("compile", "dense.onnx", "-o", "a.tw")
        self.assertNotIn("measuring", done.stderr)
        self.assertIn("defaults", done.stderr)
        figures = json.loads(self.measured("doctor", "--json").stdout)["figures"]
        self.assertTrue(figures["from"].startswith("defaults of "), figures["from"])

    def test_levels_need_none(self):
        shutil.rmtree(self.cache)
        done = self.measured("compile", "dense.onnx", "-o", "a.tw", "--target", "cpu:x86-64-v3")
        self.assertNotIn("measuring", done.stderr)
        self.assertEqual(list(self.cache.glob("machine-*")), [])


class Disk(Case):
    """A full disk: a file system of 64 KiB in a mount namespace of our own."""

    def test_full_disk_keeps_the_old_file(self):
        probe = subprocess.run(["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"], capture_output=True)
        if probe.returncode != 0:
            self.skipTest("no small file system can be mounted here")
        self.write("big.onnx", ob.dense(k=300, n=200))
        for target, words in {
            "m.tw": f"compile big.onnx -o /mnt/m.tw",
            "y.npy": f"run dense.onnx --random seed=0 --output y=@/mnt/y.npy",
        }.items():
            fill = "head -c 65536 /dev/zero > /mnt/fill" if target == "y.npy" else "true"
            script = (f"mount -t tmpfs -o size=68k none /mnt && echo old > /mnt/{target} && {{ {fill}; {TILEWRIGHT} {words}; code=$?; "
                      f"ls -A /mnt; cat /mnt/{target}; exit $code; }}")
            done = subprocess.run(["unshare", "-rm", "sh", "-c", script], cwd=self.folder, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, EXHAUSTED, done.stdout + done.stderr)
            self.assertIn("error:", done.stderr)
            left = done.stdout.split()
            self.assertEqual(sorted(set(left) - {"fill", "old"}), [target], "a partial file was left")
            self.assertEqual(left[-1], "old")


    def test_output_that_is_lost_is_an_error(self):
        self.compiled("dense.tw", "--plan-out", "dense.twp")
        for words in ("run dense.tw --random seed=0 --json", "inspect dense.twp", "inspect dense.tw --section weights", "compile dense.onnx -v"):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                done = subprocess.run([TILEWRIGHT, *words.split()], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
                self.assertEqual(done.returncode, EXHAUSTED, done.stderr)
                self.assertIn("error:", done.stderr)

    def test_a_limit_of_file_sizes_leaves_nothing(self):
        self.write("big.onnx", ob.dense(k=300, n=200))
        done = subprocess.run(["bash", "-c", f"ulimit -f 4; exec {TILEWRIGHT} compile big.onnx -o big.tw"], cwd=self.folder, capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, EXHAUSTED, done.stdout + done.stderr)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["big.onnx", "dense.onnx"])


class Kill(Case):
    def test_kill_leaves_the_old_file_or_the_new(self):
        """SIGKILL at 50 moments of a compile, spread over its whole length."""
        self.write("big.onnx", ob.dense(k=300, n=200))
        start = time.monotonic()
        self.succeeds("compile", "big.onnx", "-o", "out.tw")
        length = time.monotonic() - start
        new = (self.folder / "out.tw").read_bytes()
        old = self.compiled("out.tw").read_bytes()
        self.assertNotEqual(old, new)
        rng, seen = random.Random(3), set()
        for _ in range(50):
            (self.folder / "out.tw").write_bytes(old)
            process = subprocess.Popen([TILEWRIGHT, "compile", "big.onnx", "-o", "out.tw"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(rng.uniform(0, 1.3 * length))
            process.kill()
            process.wait()
            now = (self.folder / "out.tw").read_bytes()
            self.assertIn(now, (old, new))
            seen.add(now)
        self.assertIn(old, seen, "no kill came before the end: the test shows nothing")


if __name__ == "__main__":
    unittest.main()
