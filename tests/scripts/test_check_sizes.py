"""check_sizes.py and its outline parser: planted violations are found at their lines, look-alikes are not."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_sizes  # noqa: E402
from cpp_outline import Outline  # noqa: E402


def violations(text, is_header=False):
    return list(check_sizes.check_text(text, is_header))


def function_of(lines):
    return "int f() {\n" + "  g();\n" * (lines - 2) + "}\n"


def nested(levels, keyword="if (x)"):
    return "void f() {\n" + "".join(f"{keyword} {{\n" for _ in range(levels)) + "g();\n" + "}\n" * levels + "}\n"


class Files(unittest.TestCase):
    def test_lengths(self):
        self.assertEqual(violations("\n" * 500), [])
        self.assertEqual([line for line, _ in violations("\n" * 501)], [1])
        self.assertEqual(violations("// Size: one table of all operators\n" + "\n" * 799), [])
        self.assertIn("at most 800", violations("// Size: one table\n" + "\n" * 800)[0][1])
        self.assertIn("needs a", violations("\n" * 100 + "// Size: too far down\n" + "\n" * 450)[0][1])
        self.assertIn("needs a", violations("// Size:\n" + "\n" * 500)[0][1])

    def test_main_prints_file_and_line_and_counts_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/core").mkdir(parents=True)
            (root / "src/core/long.cpp").write_text("\n\n" + function_of(81))
            (root / "tests/core").mkdir(parents=True)
            (root / "tests/core/long_test.cpp").write_text(function_of(81))
            (root / "runtime").mkdir()
            (root / "runtime/fine.c").write_text(function_of(80))
            with contextlib.redirect_stdout(io.StringIO()) as out:
                code = check_sizes.main(["--root", folder])
            self.assertEqual(code, 1)
            self.assertIn("src/core/long.cpp:3: function f has 81 lines, at most 80\n", out.getvalue())
            self.assertIn("tests/core/long_test.cpp:1: function f has 81 lines, at most 80\n", out.getvalue())
            self.assertIn("3 files, 163 lines in src + runtime, 2 violations", out.getvalue())
            budgets = root / "sizes.txt"
            for text, rule in (("src/core 81\nruntime 80", "src/core:1: has 83 lines, its budget is 81"),
                               ("src/core 90", "runtime:1: has no budget in sizes.txt"),
                               ("src/core 60000\nruntime 40001", "src:1: budgets add up to 100001 lines, at most 100000")):
                budgets.write_text(text)
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    code = check_sizes.main(["--root", folder, "--budgets", str(budgets)])
                self.assertEqual(code, 1)
                self.assertIn(rule, out.getvalue())


class Functions(unittest.TestCase):
    def test_length(self):
        self.assertEqual(violations(function_of(80)), [])
        self.assertEqual(violations("\n" + function_of(81)), [(2, "function f has 81 lines, at most 80")])
        inside = "namespace tw {\nclass A {\n public:\n" + function_of(81) + "};\n}\n"
        self.assertEqual(violations(inside), [(4, "function f has 81 lines, at most 80")])
        constructor = "A::A(int a)\n    : a_(a), b_{a, {1}} {\n" + "g();\n" * 79 + "}\n"
        self.assertEqual(violations(constructor), [(1, "function A has 82 lines, at most 80")])

    def test_nesting(self):
        self.assertEqual(violations(nested(4)), [])
        self.assertEqual(violations(nested(5)), [(6, "function f nests 5 levels deep, at most 4")])
        self.assertEqual(len(violations(nested(5, "for (int i = 0; i < 2; ++i)"))), 1)
        braceless = "void f() {\n" + "for (;;)\n" * 5 + "g();\n}\n"
        self.assertEqual(violations(braceless), [(2, "function f nests 5 levels deep, at most 4")])
        mixed = "void f() {\nfor (;;)\nfor (;;) {\nif (a) {\nwhile (b) {\ndo {\n} while (c);\n}\n}\n}\n}\n"
        self.assertEqual(violations(mixed), [(6, "function f nests 5 levels deep, at most 4")])
        in_lambda = "void f() {\nif (a) {\nif (b) {\nsort(v, [&](int x, int y) {\nif (x) {\nif (y) {\n}\n}\n});\n}\n}\n}\n"
        self.assertEqual(violations(in_lambda), [(6, "function f nests 5 levels deep, at most 4")])

    def test_else_if_chains_initialisers_and_short_lambdas_do_not_nest(self):
        chain = "void f() {\n" + "if (a) {\n} " + "else if (b) {\n} " * 9 + "else {\n}\n}\n"
        self.assertEqual(violations(chain), [])
        self.assertEqual(violations("void f() {\nauto x = A{B{C{D{E{1}}}}};\ng({{{{{1}}}}});\n}\n"), [])
        short = nested(4).replace("g();", "any_of(v, [](int x) { return x > 0; });")
        self.assertEqual(violations(short), [])

    def test_text_in_literals_comments_and_macros_is_ignored(self):
        text = ('#define OPEN if (x) { if (y) { \\\n  if (z) {\nvoid f() {\n// { { { { {\n/* {{{{{ */\n'
                'auto s = "if (x) { {"; char c = \'{\'; auto r = R"x(if (a) { { { { { )" )x"; int n = 1\'000\'000;\n}\n')
        outline = Outline(text)
        self.assertEqual([(f.name, f.line, f.end, f.nesting) for f in outline.functions], [("f", 3, 7, 0)])

    def test_parameters(self):
        self.assertEqual(violations("void f(int a, int b, int c, int d, int e, std::map<int, int> m);\n"), [])
        seven = "void f(int a, int b,\n       int c, int d, int e, int g, int h)"
        for text in (seven + ";\n", seven + " {}\n", "struct A {\n  virtual " + seven.replace("\n", "") + " const = 0;\n};\n"):
            found = violations(text)
            self.assertEqual(len(found), 1, text)
            self.assertIn("has 7 parameters, at most 6", found[0][1])
        self.assertEqual(violations("int x = f(1, 2, 3, 4, 5, 6, 7);\nTW_ROW(1, 2, 3, 4, 5, 6, 7);\n"), [])

    def test_bare_bool_in_headers(self):
        for declaration in ("void f(bool on);", "int g(int a, const bool on = false);", "A(bool on) : on_(on) {}",
                            "bool operator()(bool a) const { return a; }", "inline void h(bool) {}",
                            "template <class T>\nvoid t(T x, bool y);", "void (*callback)(bool on);"):
            text = f"struct A {{\n{declaration}\n}};\n"
            self.assertEqual(len(violations(text, is_header=True)), 1, declaration)
            self.assertEqual(violations(text, is_header=False), [], declaration)
        for declaration in ("bool f();", "void f(bool* out);", "void f(bool& out);", "void f(std::vector<bool> v);",
                            "explicit operator bool() const { return x; }", "std::function<void(bool)> g;", "bool on = false;"):
            self.assertEqual(violations(f"struct A {{\n{declaration}\n}};\n", is_header=True), [], declaration)


class Names(unittest.TestCase):
    def test_every_kind_of_function_is_seen(self):
        text = """
namespace tw::x {
template <class T> T plain(T a) { return a; }
template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) { fail(parts...); }
auto kLambda = [](int a) mutable -> std::vector<int> { return {a}; };
[[nodiscard]] int after() {
  auto generic = []<class T>(T x) { if (x) { return x; } };
  int table[2] = {1, 2};
  return generic(table[0]);
}
auto trailing(int a) -> std::vector<int> { return {a}; }
static const std::vector<int> kTable = {1, 2, 3};
constexpr Row kRows[] = {{"a", f}, {"b", g}};
Expr operator&&(Expr a, Expr b) { return a; }
Expr operator||(Expr a, Expr b) { return a; }
enum class Kind : uint8_t { kA, kB };
extern "C" { int c_function(void) { return 0; } }
extern "C" int one(int a) { return 0; }
TEST(Suite, Case) { EXPECT_EQ(1, 1); }
struct S final : Base<int> {
  S() = default;
  explicit S(int a) noexcept(true) : Base<int>{a}, v_{a} {}
  bool operator()(int a) const noexcept { return a; }
  operator int() const { return 1; }
  int v_{0};
};
}  // namespace tw::x
"""
        names = [f.name for f in Outline(text).functions]
        self.assertEqual(names, ["plain", "refuse", "lambda", "after", "trailing", "operator &&", "operator ||", "c_function", "one", "TEST", "S",
                                 "operator()", "operator int"])
        self.assertEqual([(d.name, len(d.params)) for d in Outline(text).declarations], [("S", 0)])


if __name__ == "__main__":
    unittest.main()
