"""junit_counts.py: what counts as passed, failed and not run, and what failed tests printed."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import junit_counts  # noqa: E402

CASES = """<testsuite tests="6">
<testcase name="good" status="run"/>
<testcase name="bad" status="fail"><failure message="x"/><system-out>one
two
three</system-out></testcase>
<testcase name="off" status="disabled"/>
<testcase name="no-gpu" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
<testcase name="no-gpu-2" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
<testcase name="missing" status="notrun"><skipped message="Unable to find executable: x"/></testcase>
</testsuite>"""

PYTEST_CASES = """<testsuites><testsuite name="pytest" tests="4">
<testcase classname="a" name="good" time="0.1"/>
<testcase classname="a" name="bad"><failure message="x">y</failure></testcase>
<testcase classname="a" name="fixture"><error message="x">y</error></testcase>
<testcase classname="a" name="no torch"><skipped type="pytest.skip" message="torch is not installed">z</skipped></testcase>
</testsuite></testsuites>"""


class JunitCounts(unittest.TestCase):
    def read(self, function, text):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(text)
            file.flush()
            return function(file.name)

    def test_ctest(self):
        self.assertEqual(self.read(junit_counts.counts, CASES), (1, 2, 3))

    def test_pytest(self):
        self.assertEqual(self.read(junit_counts.counts, PYTEST_CASES), (1, 2, 1))

    def test_failed_tests_show_their_last_lines(self):
        texts = self.read(lambda path: list(junit_counts.failures(path, lines=2)), CASES)
        self.assertEqual(texts, ["bad FAILED:\ntwo\nthree", "missing FAILED:"])


if __name__ == "__main__":
    unittest.main()
