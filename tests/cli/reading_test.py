"""How the command reads: what a wrong word, file or shape is told, help, progress on a terminal, units and plurals.

  TILEWRIGHT=PATH python3 -m unittest reading_test.Reading
"""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import zipfile

import onnx_bytes as ob
from command_test import MODEL, TILEWRIGHT, USAGE, Case, npy, safetensors


def two_inputs(rows=2, dtype=ob.I64):
    """y = cast(ids) + x: an integer and a float input, rows x seq."""
    nodes = [ob.node("Cast", ["ids"], ["f"], "C", [("to", ob.F32)]), ob.node("Add", ["f", "x"], ["y"], "A")]
    return ob.model(nodes, [ob.value_info("ids", [rows, "seq"], dtype), ob.value_info("x", [rows, "seq"])], [ob.value_info("y", [rows, "seq"])])


def transposer():
    """A model whose output depends on every input value in its place."""
    return ob.model([ob.node("Transpose", ["x"], ["y"], "T")], [ob.value_info("x", ["batch", "seq"])], [ob.value_info("y", ["seq", "batch"])])


class Reading(Case):
    def terminal(self, words, columns=80, environment=None):
        """Runs a command on a terminal of so many columns; what it writes there, and its exit code."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([TILEWRIGHT, *words], cwd=self.folder, stdin=theirs, stdout=theirs, stderr=theirs,
                                   env={**os.environ, "TERM": "xterm", **(environment or {})})
        os.close(theirs)
        text = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            text += more
        os.close(ours)
        return text.decode(), process.wait(timeout=300)

    def test_targets(self):
        self.fails(USAGE, ["compile", "dense.onnx", "--target", "cpu:x86-64v3"], "did you mean 'cpu:x86-64-v3'?")
        self.fails(USAGE, ["compile", "dense.onnx", "--target", "cuda:sm_90"], "did you mean 'cuda:sm_90a'?")
        if not os.path.exists("/dev/nvidiactl"):
            for name in ("cuda", "gpu"):
                self.fails(USAGE, ["compile", "dense.onnx", "--target", name], f"--target {name} is the GPU of this machine", "cuda:sm_80 or cuda:sm_90a")

    def test_passes(self):
        self.fails(USAGE, ["compile", "dense.onnx", "--disable-pass", "fues"], "--disable-pass fues: there is no such pass; did you mean 'fuse'?")

    def test_a_bare_verb_lists_its_actions(self):
        for words, names in (([], ["compile", "run", "bench", "verify", "inspect", "explain", "doctor", "cache", "db"]),
                             (["cache"], ["status", "path", "prune"]), (["db"], ["status", "export", "import", "merge"]),
                             (["templates"], ["build", "list"])):
            done = self.run_command(*words)
            self.assertEqual((done.returncode, done.stdout), (USAGE, ""), done.stderr)
            self.assertTrue(done.stderr.startswith(" ".join(["Usage: tilewright", *words])), done.stderr)
            for name in names:
                self.assertRegex(done.stderr, rf"(?m)^  {name} +[A-Z]")
            self.assertLessEqual(max(len(line) for line in done.stderr.splitlines()), 80)

    def test_an_action_that_there_is_not(self):
        self.fails(USAGE, ["cache", "statsu"], "'cache' has no action 'statsu'; did you mean 'status'?")
        self.fails(USAGE, ["db", "frob"], "'db' has no action 'frob'; there are status, export, import and merge")

    def test_help_is_as_wide_as_the_terminal(self):
        for columns in (70, 100):
            text, code = self.terminal(["bench", "-h"], columns)
            self.assertEqual(code, 0)
            lines = [line for line in text.replace("\r", "").splitlines() if not line.startswith("Example: ")]
            self.assertLessEqual(max(map(len, lines)), columns)
            self.assertGreater(max(map(len, lines)), columns - 15)
        for group in ("Input:", "Measuring:", "Output:"):
            self.assertIn(f"\n{group}\n", text.replace("\r", ""))
        self.assertLess(len(text.splitlines()), 60)

    def test_missing_files_are_one_kind_of_error(self):
        for words in (["run", "nope.tw"], ["run", "nope.onnx"], ["compile", "nope.onnx"], ["bench", "nope.tw"], ["verify", "nope.onnx"],
                      ["inspect", "nope"], ["explain", "nope.tw"], ["refit", "nope.tw", "--weights", "w.safetensors", "-o", "a.tw"]):
            self.fails(USAGE, words, "usage: cannot read 'nope", "No such file or directory")
        self.fails(USAGE, ["run", "dense.onnx", "--input", "nope.npz"], "cannot read 'nope.npz': No such file")

    def test_files_that_are_something_else(self):
        self.write("passwd", b"root:x:0:0:root:/root:/bin/bash\n")
        for verb in ("run", "inspect", "bench", "verify"):
            self.fails(MODEL, [verb, "passwd"], "'passwd' is neither a .tw artefact nor an ONNX model", "'root:x:0'")
        self.fails(MODEL, ["compile", "passwd"], "'passwd' is not an ONNX model", "'root:x:0'")
        self.write("empty", b"")
        self.fails(MODEL, ["inspect", "empty"], "neither")
        os.rename(self.compiled(), self.folder / "renamed")
        self.assertIn("artefact by tilewright", self.succeeds("inspect", "renamed").stdout)
        self.succeeds("run", "renamed", "--random", "seed=0")

    def test_types_are_told_apart_from_shapes(self):
        self.write("two.onnx", two_inputs())
        self.succeeds("compile", "two.onnx", "-o", "two.tw", "--dim", "seq=8,16,64")
        self.write("floats.npy", npy([2, 64], range(128)))
        self.write("ids.npy", npy([2, 64], range(128), "<i8"))
        self.write("short.npy", npy([2, 15], range(30), "<i8"))
        self.fails(USAGE, ["run", "two.tw", "--input", "ids=@floats.npy", "--random", "seed=0"], "input 'ids' is f32[2,64], the model takes i64[2,64]")
        self.fails(USAGE, ["run", "two.tw", "--input", "ids=@short.npy", "--random", "seed=0"], "not compiled for ids i64[2,15]",
                   "nearest entry takes:\n  ids: i64[2,16]", "ids:2x8")
        self.fails(USAGE, ["run", "two.tw", "--random", "seed=0", "--entry", "ids:2x8 x:2x9"], "no entry 'ids:2x8 x:2x9'; did you mean 'ids:2x8 x:2x8'?")
        done = self.succeeds("run", "two.tw", "--input", "ids=@ids.npy", "--random", "seed=0")
        self.assertIn("entry ids:2x64 x:2x64, one of 3\n", done.stdout)
        self.assertEqual(json.loads(self.succeeds("run", "two.tw", "--random", "seed=0", "--json").stdout)["entry"], "ids:2x8 x:2x8")
        self.assertIn("entry ids:2x8 x:2x8, one of 3\n", self.succeeds("bench", "two.tw", "--duration", "0").stdout)

    def test_names_of_inputs(self):
        self.compiled()
        self.write("x.npy", npy([4, 3], range(12)))
        with zipfile.ZipFile(self.folder / "one.npz", "w") as file:
            file.writestr("other.npy", npy([4, 3], range(12)))
        with zipfile.ZipFile(self.folder / "both.npz", "w") as file:
            for name in ("x", "z"):
                file.writestr(f"{name}.npy", npy([4, 3], range(12)))
        self.write("t.safetensors", safetensors({"k": ([4, 3], range(12))}))
        want = ob.dense_reference(list(range(12)))
        for text in ("x.npy", "one.npz", "x=@x.npy", "x=@one.npz", "x=@one.npz:other", "x=@both.npz:z", "t.safetensors", "x=@t.safetensors:k"):
            with self.subTest(text=text):
                self.succeeds("run", "dense.tw", "--input", text, "--output", "y=@y.npy")
                self.assertEqual(list(struct.unpack("<20f", (self.folder / "y.npy").read_bytes()[128:])), want)
        self.fails(USAGE, ["run", "dense.tw", "--input", "y=@x.npy"], "no input 'y' (f32[4,3] is given)", "x: f32[4,3]")
        self.fails(USAGE, ["run", "dense.tw", "--input", "both.npz"], "no input 'z'")
        self.fails(USAGE, ["run", "dense.tw", "--input", "x=@both.npz"], "both.npz:KEY; there are x and z")
        self.fails(USAGE, ["run", "dense.tw", "--input", "x=@both.npz:y"], "no array 'y'")
        self.fails(USAGE, ["run", "dense.tw", "--input", "x.npy", "--output", "z=@z.npy"], "no output 'z'; there is only y")
        self.write("two.onnx", two_inputs())
        self.fails(USAGE, ["run", "two.onnx", "--dim", "seq=3", "--input", "x.npy"], "takes 2 inputs", "ids=@x.npy or x=@x.npy")

    def test_expected_outputs_in_any_file(self):
        self.compiled()
        self.write("x.npy", npy([4, 3], range(12)))
        want = ob.dense_reference(list(range(12)))
        self.write("y.npy", npy([4, 5], want))
        self.write("y.safetensors", safetensors({"y": ([4, 5], want)}))
        for file in ("y.npy", "y.safetensors"):
            self.succeeds("verify", "dense.tw", "--input", "x.npy", "--against", file)
        self.fails(USAGE, ["verify", "dense.tw", "--input", "x.npy", "--against", "dense.tw"], "expected a .npy, .npz or .safetensors file")

    def test_sizes_of_dimensions(self):
        self.write("t.onnx", transposer())
        self.fails(MODEL, ["compile", "t.onnx"], "'x' is f32[batch,seq]: give --dim batch=1 --dim seq=128 or --shape x:1x128 (examples: choose your sizes)",
                   "--dim seq=32,64,128")
        image = ob.model([ob.node("Relu", ["x"], ["y"], "R")], [ob.value_info("x", ["n", 3, "h", "w"])], [ob.value_info("y", ["n", 3, "h", "w"])])
        self.write("image.onnx", image)
        self.fails(MODEL, ["compile", "image.onnx"], "--dim n=1 --dim h=224 --dim w=224")
        self.fails(USAGE, ["compile", "t.onnx", "--dim", "batch=0", "--dim", "seq=4"], "--dim batch=0: a dimension is 1 or more")
        self.fails(USAGE, ["compile", "t.onnx", "--dim", "batch=1", "--dim", "seq=64..1"], "a range goes from a size of at least 1", "such as 1..128")
        self.fails(MODEL, ["compile", "t.onnx", "--dim", "batch=1", "--dim", "sek=4"], "did you mean 'seq'?")

    def test_the_artefact_goes_into_the_current_folder(self):
        self.write("models/small.onnx", ob.dense())
        self.assertIn("-> small.tw (", self.succeeds("compile", "models/small.onnx").stdout)
        self.assertEqual([p.name for p in (self.folder / "models").iterdir()], ["small.onnx"])
        self.assertTrue((self.folder / "small.tw").exists())

    def test_units_and_plurals(self):
        text = self.succeeds("compile", "dense.onnx", "-o", "dense.tw").stdout
        self.assertRegex(text, r"-> dense\.tw \(\d+(\.\d+)? kB\) for .* in [\d.]+ m?s\n1 group by family: \w+ 1; 1 different kernel\n")
        text = self.succeeds("inspect", "dense.tw").stdout
        self.assertRegex(text, r"section \S+ +[\d.]+ kB\n")
        self.assertRegex(text, r": 1 step, ")
        self.assertIn("x: f32[4,3]\n", text)
        self.assertIn("y: f32[4,5] ", self.succeeds("run", "dense.tw", "--random", "seed=0").stdout)
        self.assertIn(": 1 group checked", self.succeeds("verify", "dense.tw").stdout)
        for document in (self.succeeds("run", "dense.tw", "--random", "seed=0", "--json").stdout, self.succeeds("bench", "dense.tw", "--duration", "0", "--json").stdout):
            for number in re.findall(r"\d+\.\d+(?:e-?\d+)?", document):
                self.assertLessEqual(len(number.split("e")[0].replace(".", "").strip("0")), 6, number)

    def test_more_threads_than_there_are(self):
        self.compiled()
        cpus = len(os.sched_getaffinity(0))
        done = self.succeeds("bench", "dense.tw", "--duration", "0", "--threads", str(cpus + 7))
        self.assertIn(f"note: {cpus + 7} threads are asked for, this process may use {cpus}: it runs on {cpus}\n", done.stderr)
        quiet = self.succeeds("bench", "dense.tw", "--duration", "0", "--threads", str(cpus + 7), "-q")
        self.assertNotIn("note", quiet.stderr)
        self.assertNotIn("note", self.succeeds("bench", "dense.tw", "--duration", "0", "--threads", "1").stderr)

    def test_a_busy_machine_is_said(self):
        """As many busy programs as CPUs, twice, and runs longer than a turn on a CPU: each is disturbed."""
        self.write("wide.onnx", ob.dense(m=1024, k=1024, n=1024))
        self.succeeds("compile", "wide.onnx", "-o", "wide.tw")
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * os.cpu_count())]
        try:
            done = self.succeeds("bench", "wide.tw", "--duration", "2", "--json")
        finally:
            for process in busy:
                process.kill()
                process.wait()
        share = json.loads(done.stdout)["quiet_share"]
        self.assertLess(share, 0.9)
        self.assertRegex(done.stderr, rf"warning: other programs disturbed {100 * (1 - share):.0f} % of the runs: compare p10 \([\d.]+ ms\)")

    def test_doctor_fits_a_terminal_of_80_columns(self):
        text, code = self.terminal(["doctor"], 80)
        self.assertEqual(code, 0)
        lines = [line for line in text.replace("\r", "").splitlines() if not line.startswith("tilewright: ")]
        self.assertLessEqual(max(map(len, lines)), 80, text)
        self.assertTrue(any(re.fullmatch("  cpu +yes", line) for line in lines), text)
        names = [line.split()[0] for line in lines if line.startswith("  c")]
        self.assertEqual(names[0], "cpu")
        self.assertEqual(names[-2:], ["cuda:sm_80", "cuda:sm_90a"])
        for line in lines:
            if line.startswith("  c"):
                self.assertRegex(line, r"^  \S+ +(yes|no[:,] \S)")

    def measured_on_terminal(self, columns):
        layers = 12
        nodes, tensors = [], []
        for i in range(layers):
            name = f"/encoder/block{i}/attention/projection/with/a/rather/long/name/MatMul_{i}"
            nodes.append(ob.node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], name))
            tensors.append(ob.tensor(f"w{i}", [200 + i, 201 + i], [1] * (200 + i) * (201 + i)))
        self.write("deep.onnx", ob.model(nodes, [ob.value_info("x0", [64, 200])], [ob.value_info(f"x{layers}", [64, 200 + layers])], tensors))
        environment = {"TILEWRIGHT_NO_MEASURE": "0"}
        text, code = self.terminal(["compile", "deep.onnx", "-o", "deep.tw", "--no-cache", "--measure-threads", "1", "--budget", "20s"], columns, environment)
        self.assertEqual(code, 0, text)
        return text

    def test_progress_stays_in_its_line(self):
        text = self.measured_on_terminal(72)
        live = [state for state in text.split("\r\x1b[K") if re.match("(import|transform|measure|lower|code|assemble) ", state)]
        measuring = [state for state in live if state.startswith("measure")]
        self.assertGreater(len(measuring), 1, text)
        for state in live:
            self.assertNotIn("\n", state)
            self.assertLess(len(state), 72, state)
        self.assertTrue(any(re.search(r"^measure \[#+\.*\] \d+/\d+ .*\.\..* us$", state) for state in measuring), measuring)


if __name__ == "__main__":
    import unittest

    unittest.main()
