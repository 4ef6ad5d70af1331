"""check_costs.py: constants of cost are found wherever they are planted, and look-alikes are not."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_costs  # noqa: E402

FOLDERS = ("src/core", "src/cost", "src/schedule/match", "src/transform/fuse", "src/construct/gpu", "src/templates", "src/targets/cuda")
CONSTANTS = (
    "constexpr double kTileCycles = 1500;",
    "constexpr float kShare = .75f;",
    "inline constexpr double kShare = 0.75;  // of a cache",
    "static const double kShare = 3 * 0.25;",
    "static constexpr double kWait = 7 * kLatency;",
    "const double kLost = std::sqrt(3);",
    "const double share = 0.75;",
    "const float weights[] = {0.5, .25};",
    "constexpr double kRates[] = {1, 2};",
    "constexpr std::array<double, 2> kRates = {0.7, 1};",
    "constexpr auto kShare = 0.75;",
    "constexpr double kFirst = kOther,\n                 kSecond = 24;",
    "constexpr double kBraced{1.5};",
)
FACTORS = ("return best * 0.98;", "return 8.0 / warps;", "return wide ? ns * 1.5 : ns;", "return .3 * deep;")
NO_CONSTANTS = (
    "const double share = kShare / 2;",
    "const double lanes = std::max(1, target.lanes);",
    "constexpr int64_t kTile = 64;",
    "constexpr auto kGroup = Multiplier::kWarpGroup;",
    "inline double rate(const Target& t) {\n  double rate = 1;\n  return rate;\n}",
    "double cycles = 0.5;",
    "return 2.0 * bytes / rate;",
    "if (x == 0.5) return 1.0 / 6;",
    "const Expr half = number(0.5);",
    '// constexpr double kShare = 0.75;',
    'const char* text = "constexpr double kShare = 0.75; x * 0.5";',
)


class CheckCosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def run_check(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = check_costs.main(["--root", str(self.root)])
        return code, out.getvalue().splitlines()[:-1]

    def violations(self, name, text):
        path = self.write(name, f"// first line\n{text}\n")
        code, lines = self.run_check()
        path.unlink()
        self.assertEqual(code, 1 if lines else 0)
        return lines

    def test_a_planted_constant_is_refused_in_each_folder(self):
        for folder in FOLDERS:
            for suffix in ("h", "cpp"):
                name = f"{folder}/planted.{suffix}"
                lines = self.violations(name, CONSTANTS[0])
                self.assertEqual(len(lines), 1, lines)
                self.assertTrue(lines[0].startswith(f"{name}:2: kTileCycles: "), lines[0])

    def test_each_way_to_declare_one_is_found(self):
        for text in CONSTANTS:
            lines = self.violations("src/construct/gpu/planted.cpp", text)
            self.assertEqual(len(lines), 2 if "kSecond" in text else 1, (text, lines))

    def test_a_factor_without_a_name_is_found(self):
        for text in FACTORS:
            lines = self.violations("src/transform/planted.cpp", f"double f() {{\n  {text}\n}}")
            self.assertEqual(len(lines), 1, (text, lines))
            self.assertIn("planted.cpp:3: ", lines[0])

    def test_what_is_no_constant_passes(self):
        for text in NO_CONSTANTS:
            self.assertEqual(self.violations("src/construct/planted.cpp", text), [], text)

    def test_calibrated_constants_and_machines_have_their_files(self):
        for name in (check_costs.CALIBRATED, *check_costs.MACHINES):
            self.assertEqual(self.violations(name, CONSTANTS[0]), [], name)
        self.assertEqual(self.violations("src/driver/tune/planted.cpp", CONSTANTS[0]), [])

    def test_the_closed_list_is_by_file_and_name_and_needed(self):
        (name, constant), _ = next(iter(check_costs.NO_COSTS.items()))
        self.assertEqual(self.violations(name, f"constexpr double {constant} = 4096;"), [])
        lines = self.violations(name, f"constexpr double {constant} = 4096;\nconstexpr double kOther = 1;")
        self.assertEqual(len(lines), 1, lines)
        lines = self.violations(name, "int nothing;")
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(f"has no {constant}", lines[0])

    def test_the_project_has_none(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = check_costs.main(["--root", str(ROOT)])
        self.assertEqual(code, 0, out.getvalue())


if __name__ == "__main__":
    unittest.main()
