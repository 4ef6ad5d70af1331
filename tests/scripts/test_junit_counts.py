"""junit_counts.py: what counts as passed, failed and not run."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import junit_counts  # noqa: E402

CASES = """<testsuite tests="6">
<testcase name="good" status="run"/>
<testcase name="bad" status="fail"><failure message="x"/></testcase>
<testcase name="off" status="disabled"/>
<testcase name="no-gpu" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
<testcase name="no-gpu-2" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
<testcase name="missing" status="notrun"><skipped message="Unable to find executable: x"/></testcase>
</testsuite>"""


class JunitCounts(unittest.TestCase):
    def test_counts(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(CASES)
            file.flush()
            self.assertEqual(junit_counts.counts(file.name), (1, 2, 3))


if __name__ == "__main__":
    unittest.main()
