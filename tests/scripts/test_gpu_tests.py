"""gpu_tests.sh: says "not run" without a GPU, counts what passes and fails with one. Programs and GPU are made up."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu_tests.sh"
# Fails on models whose name holds "wrong".
TILEWRIGHT = """#!/bin/sh
case "$*" in *wrong*) echo "1 of 1 elements wrong"; exit 4 ;; esac
"""
NODE_TESTS = """#!/bin/sh
echo "all on compiled: 2 of 3 passed, arguments $*"
exit ${NODE_CODE:-0}
"""
SANITIZER = """#!/bin/sh
echo "$*" >> "$SANITIZED"
"""


class GpuTests(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.program("build/tools/tilewright", TILEWRIGHT)
        self.program("build/tests/node_tests", NODE_TESTS)
        (self.folder / "suite").mkdir()
        for name in ("right.onnx", "wrong.onnx", "models.json"):
            (self.folder / "suite" / name).write_text("{}")
        (self.folder / "bin").mkdir()

    def program(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_script(self, *steps, **variables):
        environment = dict(os.environ, TW_BUILD=str(self.folder / "build"), TW_OPERATORS=str(self.folder / "suite"),
                           TW_LOGS=str(self.folder / "logs"), SANITIZED=str(self.folder / "sanitized"),
                           PATH=f"{self.folder}/bin:{os.environ['PATH']}", TW_JOBS="2", **variables)
        return subprocess.run(["bash", SCRIPT, *steps], env=environment, capture_output=True, text=True)

    def test_without_a_gpu(self):
        self.program("bin/nvidia-smi", "#!/bin/sh\nexit 9\n")
        done = self.run_script()
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertEqual(done.stdout.count("not run: no NVIDIA GPU"), 7)
        self.assertTrue(done.stdout.endswith("0 passed, 0 failed, 7 not run\n"))

    def test_with_a_gpu(self):
        self.program("bin/nvidia-smi", "#!/bin/sh\necho 'GPU 0: made up'\n")
        self.program("bin/compute-sanitizer", SANITIZER)
        done = self.run_script("node", "operators", "memcheck")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("failed wrong.bf16: 1 of 1 elements wrong", done.stdout)
        self.assertIn("operators (cuda:sm_90a, f32 f16 bf16): 3 passed, 3 failed", done.stdout)
        self.assertTrue(done.stdout.endswith("7 passed, 6 failed, 0 not run\n"), done.stdout)
        self.assertEqual((self.folder / "sanitized").read_text().count("--tool memcheck"), 3)
        self.assertEqual(self.run_script("node").returncode, 0)
        self.assertEqual(self.run_script("node", NODE_CODE="1").returncode, 1)
        self.assertIn("1 not run", self.run_script("node", NODE_CODE="77").stdout)
        self.assertNotIn("--time-limit", self.run_script("node").stdout)
        self.assertNotIn("--one-value", self.run_script("node").stdout)
        self.assertIn("--one-value", self.run_script("one-value").stdout)
        self.assertIn("--time-limit 90\n", self.run_script("node", TW_NODE_LIMIT="90").stdout)


if __name__ == "__main__":
    unittest.main()
