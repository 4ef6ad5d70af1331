"""check_doc_paths.py: links, headings and named paths that lead nowhere are found, with file and line."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import check_doc_paths  # noqa: E402

DOCS = "docs"  # apart from what follows, so that the check of this project does not look for these


class Paths(unittest.TestCase):
    def check(self, **files):
        """(exit code, lines) for a project of these files; `_` stands for `/` and `__` for `.` in their names."""
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            for name, text in files.items():
                path = pathlib.Path(folder) / name.replace("__", ".").replace("_", "/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            code = check_doc_paths.main(["--root", folder])
        return code, out.getvalue().splitlines()

    def test_what_is_there(self):
        index = ("[a](guide/a.md#the-first-one) [b](#here) [web](https://example.org)\n# Here\n"
                 "```sh\n[x](nowhere)\n```\n")
        self.assertEqual(self.check(docs_README__md=index, docs_guide_a__md="# The `first` one\n[up](../README.md)\n",
                                    src_x__cpp=f"// {DOCS}/guide/a.md\n"), (0, []))

    def test_what_is_not(self):
        _, lines = self.check(docs_README__md="\n[a](b.md)\n[c](#no)\n# c\n`src/y.cpp`\n", docs_lost__md="",
                              src_x__cpp=f"\n// see {DOCS}/z.md.\n")
        self.assertEqual(lines, [f"{DOCS}/README.md:2: b.md", f"{DOCS}/README.md:3: #no: no such heading",
                                 f"{DOCS}/README.md:5: src/y.cpp", f"src/x.cpp:2: {DOCS}/z.md",
                                 f"{DOCS}/lost.md:1: no link leads here from docs/README.md"])

    def test_the_number_of_a_decision_is_enough(self):
        files = {"docs_README__md": "[d](adr)", "docs_adr_0001-x__md": "", "src_x__cpp": f"// {DOCS}/adr/0001\n"}
        self.assertEqual(self.check(**files), (0, []))


if __name__ == "__main__":
    unittest.main()
