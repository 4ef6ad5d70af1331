"""check_options.py: each way to declare an option twice or by halves is found where it is, look-alikes are not."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_options  # noqa: E402

COMPILE, COMMAND = check_options.TABLES
TABLE = """constexpr std::string_view kCompiling = "compile run";
constexpr Option<CompileOptions> kOptions[] = {
    option<&CompileOptions::target>(
        {.name = "target", .verbs = kCompiling, .key = OptionKey::kPart, .help = "What for"}),
    {{.name = "plan",
      .variable = "TILEWRIGHT_PLAN",
      .verbs = "compile",
      .key = OptionKey::kNoEntry,
      .why = "it decides",
      .help = "Replay"},
     read_plan,
     print_plan},
};
"""
VERBS = """constexpr Option<VerbOptions> kVerbs[] = {
    option<&VerbOptions::threads>({.name = "threads", .min = 0, .verbs = "run bench", .help = "Threads"}),
};
"""


class Options(unittest.TestCase):
    def found(self, **changes):
        """What the check says of a tree with these files besides the tables; keys are paths with __ for /."""
        files = {COMPILE: TABLE, COMMAND: VERBS, **{name.replace("__", "/") + ".cpp": text for name, text in changes.items()}}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                code = check_options.main(["--root", folder])
        lines = out.getvalue().splitlines()
        self.assertEqual(code, 1 if len(lines) > 1 else 0)
        return lines[:-1]

    def only(self, where, words, **changes):
        (line,) = self.found(**changes)
        self.assertTrue(line.startswith(where + ": "), line)
        for word in words:
            self.assertIn(word, line)

    def test_tables_alone_are_fine(self):
        self.assertEqual(self.found(), [])
        fine = '// --frob\nconst char* a = "--target x, --threads=3 and --help";\napp.add_option("MODEL", model);\nint b = c--;\n'
        self.assertEqual(self.found(tools__tilewright__run=fine), [])

    def test_an_option_declared_outside_of_the_table(self):
        for call in ('add_option("--threads", n, "Threads")', 'add_option(\n"-o,--output", o)', 'add_flag("--threads", n)',
                     'add_option_function<std::string>("--target", f)', 'set_config("--target", "")'):
            name = "'-o,--output'" if "output" in call else "'--t"
            lines = self.found(tools__tilewright__run="int a;\napp." + call + ";\n")
            self.assertTrue(lines[0].startswith("tools/tilewright/run.cpp:2: "), lines)
            self.assertIn(name, lines[0])
            self.assertIn("declared here", lines[0])

    def test_a_row_outside_of_the_tables(self):
        self.only("src/driver/x.cpp:1", ["outside"], src__driver__x='constexpr OptionRow row = {.name = "target"};\n')
        self.only("tools/tilewright/x.cpp:2", ["outside"], tools__tilewright__x="\nauto r = option<&A::b>(row);\n")

    def test_two_rows_of_one_name(self):
        twice = VERBS.replace("};\n", '    option<&VerbOptions::target>({.name = "target", .verbs = "run", .help = "?"}),\n};\n')
        self.only(f"{COMMAND}:3", ["'target'", "twice", f"{COMPILE}:4"], **{COMMAND.removesuffix(".cpp").replace("/", "__"): twice})
        action = twice.replace('.verbs = "run"', '.verbs = "run/again"')
        self.only(f"{COMMAND}:3", ["twice"], **{COMMAND.removesuffix(".cpp").replace("/", "__"): action})
        everywhere = twice.replace('.verbs = "run", ', "")
        self.only(f"{COMMAND}:3", ["twice"], **{COMMAND.removesuffix(".cpp").replace("/", "__"): everywhere})
        other_verb = twice.replace('.verbs = "run", .help', '.verbs = "templates", .help')
        self.assertEqual(self.found(**{COMMAND.removesuffix(".cpp").replace("/", "__"): other_verb}), [])

    def test_rows_by_halves(self):
        table = COMPILE.removesuffix(".cpp").replace("/", "__")
        self.only(f"{COMPILE}:4", ["'target'", "key"], **{table: TABLE.replace(".key = OptionKey::kPart, ", "")})
        self.only(f"{COMPILE}:5", ["'plan'", "why"], **{table: TABLE.replace('      .why = "it decides",\n', "")})
        self.only(f"{COMPILE}:4", ["'target'", "help"], **{table: TABLE.replace(', .help = "What for"', "")})
        self.only(f"{COMPILE}:4", ["kebab"], **{table: TABLE.replace('"target"', '"Target"')})

    def test_names_that_no_row_declares(self):
        self.only("src/driver/x.cpp:2", ["--taget"], src__driver__x='\nthrow UsageError("--taget {}: no target", t);\n')
        self.only("tools/tilewright/x.cpp:1", ["--frob"], tools__tilewright__x='say("give --frob or --plan");\n')
        self.only("src/support/x.cpp:1", ["TILEWRIGHT_FROB"], src__support__x='std::getenv("TILEWRIGHT_FROB");\n')
        self.only("runtime/x.cpp:1", ["TW_FROB"], runtime__x='getenv("TW_FROB");\n')
        self.assertEqual(self.found(src__support__x='std::getenv("TILEWRIGHT_PLAN");\n'), [])

    def test_programs_of_their_own(self):
        two = 'app.add_option("--pass", p);\napp.add_flag("-q,--pass", q);\n'
        self.only("tools/tw-opt/main.cpp:2", ["'--pass'", "twice", "main.cpp:1"], **{"tools__tw-opt__main": two})
        self.assertEqual(self.found(**{"tools__tw-opt__main": two.replace("-q,--pass", "--list")}), [])

    def test_this_tree(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(check_options.main([]), 0, out.getvalue())


if __name__ == "__main__":
    unittest.main()
