"""page_commands.py: a page that says what is not so is found, and one that says what is so is not."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import page_commands  # noqa: E402


def block(language, text, *before):
    return "".join(f"{line}\n" for line in before) + f"```{language}\n{text}\n```\n"


class Pages(unittest.TestCase):
    def run_page(self, *blocks, python=sys.executable):
        """(whether all is as the page says, what was printed, counts)"""
        runner = page_commands.Runner(ROOT, None, [], python, sys.executable)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            page = pathlib.Path(folder) / "page.md"
            page.write_text("\n".join(blocks))
            ok = runner.run_page(page)
        return ok, out.getvalue(), runner.counts

    def assert_right(self, *blocks):
        ok, printed, counts = self.run_page(*blocks)
        self.assertTrue(ok, printed)
        return counts

    def assert_wrong(self, fragment, *blocks):
        ok, printed, _ = self.run_page(*blocks)
        self.assertFalse(ok, printed)
        self.assertIn(fragment, printed)

    def test_commands_must_succeed(self):
        self.assert_right(block("sh", "true\ntest 1 = 1"))
        self.assert_wrong("page.md:1: FAILED: exit code 3", block("sh", "(exit 3)\ntrue"))
        self.assert_wrong("exit code 1", block("sh", "false | cat"))

    def test_a_transcript_with_another_exit_code(self):
        self.assert_right(block("console", "$ (exit 3)\n$ echo $?\n3\n$ true"))
        self.assert_wrong("does not print: 3", block("console", "$ (exit 4)\n$ echo $?\n3"))
        self.assert_wrong("does not print: 3", block("console", "$ (exit 30)\n$ echo $?\n3"))
        self.assert_wrong("'(exit 3)': exit code 3", block("console", "$ (exit 3)\n$ true"))
        self.assert_wrong("did not end", block("console", "$ exit 0\n$ true"))

    def test_shown_lines_are_printed_in_order(self):
        self.assert_right(block("console", "$ printf 'one a\\nb\\nc 5 ms, 7 kB done\\n'\none a\nc 81.3 s, 1 MB done"))
        self.assert_right(block("console", "$ echo worst at 3: off by 2 here\nworst at 4: ..."))
        self.assert_wrong("does not print: b", block("console", "$ printf 'b\\na\\n'\na\nb"))
        self.assert_wrong("does not print: groups", block("console", "$ echo group\ngroups"))
        self.assert_wrong("does not print: 1 group", block("console", "$ echo 1 group more\n1 group"))
        self.assert_wrong("does not print: to stderr", block("console", "$ echo on stderr >&2\nto stderr"))

    def test_a_command_of_two_lines(self):
        self.assert_right(block("console", "$ echo a \\\n  b\na b"))

    def test_blocks_of_a_page_share_folder_exports_and_interpreter(self):
        counts = self.assert_right("<!-- setup: export WORD=seen; echo made > file -->",
                                   block("sh", 'test "$WORD" = seen'),
                                   block("python", "x = open('file').read().strip()"),
                                   block("python", "assert x == 'made'"),
                                   block("json", '{"a": 1}', "<!-- file: a.json -->"), block("sh", "grep -q a a.json"))
        self.assertEqual(counts, {"run": 4, "not run": 0, "failed": 0})
        self.assert_wrong("FAILED", "<!-- setup: false -->")

    def test_python_that_fails(self):
        self.assert_wrong("AssertionError", block("python", "print('before')\nassert False"))
        self.assert_wrong("the interpreter ended", block("python", "import os\nos._exit(0)"))

    def test_what_is_not_run_says_why(self):
        ok, printed, counts = self.run_page(block("sh", "false", "<!-- not run: it needs a GPU -->"),
                                            block("python", "x"), python=None)
        self.assertTrue(ok)
        self.assertEqual(counts, {"run": 0, "not run": 2, "failed": 0})
        self.assertIn("page.md:2: not run: it needs a GPU", printed)

    def test_no_block_escapes(self):
        self.assert_wrong("page.md:1: a block of ''", block("", "false"))
        self.assert_wrong("page.md:1: a block of 'bash'", block("bash", "false"))
        self.assert_wrong("has no end", "```sh\nfalse")
        self.assert_wrong("followed by no block", "<!-- not run: it needs a GPU -->\ntext")
        self.assert_wrong("begins with '$ '", block("console", "true"))


if __name__ == "__main__":
    unittest.main()
