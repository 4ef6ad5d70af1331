"""check_layers.py reports planted violations with file, line and rule, and nothing else."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_layers  # noqa: E402

HEADERS = ["src/support/error.h", "src/core/shape.h", "src/expr/expr.h", "src/te/te.h", "src/graph/graph.h",
           "src/loop/loop.h", "src/schedule/schedule.h", "src/ops/list.h", "src/lower/pipeline.h", "src/measure/measurer.h",
           "src/construct/construct.h", "src/construct/cpu/tile.h", "src/driver/options.h",
           "src/codegen/llvm/emit.h", "src/codegen/cuda/emit.h", "src/targets/registry.h", "src/driver/compile.h",
           "runtime/format/manifest.h", "runtime/arena.h", "include/tilewright/runtime.h"]


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for header in HEADERS:
            self.write(header, "#pragma once\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_check(self, rules=None):
        """(exit code, violation lines) over the planted tree with the project's rules."""
        arguments = ["--root", str(self.root), "--rules", str(rules or ROOT / "scripts/layers.txt"),
                     "--partial"]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = check_layers.main(arguments)
        return code, out.getvalue().splitlines()[:-1]

    def assert_fails(self, source, include, *fragments):
        self.write(source, f"// first line\n{include}\n")
        code, lines = self.run_check()
        (self.root / source).unlink()
        self.assertEqual(code, 1, (source, include))
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(f"{source}:2: "), lines[0])
        for fragment in fragments:
            self.assertIn(fragment, lines[0])

    def assert_passes(self, source, *includes):
        self.write(source, "\n".join(includes) + "\n")
        self.assertEqual(self.run_check(), (0, []), source)

    def test_lower_layers_own_folder_and_listed_siblings_pass(self):
        self.assert_passes("src/graph/graph.cpp", '#include "graph/graph.h"', '#include "graph.h"', '#include <vector>',
                           '#include "te/te.h"', '#include "expr/expr.h"', '#include <fmt/format.h>')
        self.assert_passes("src/driver/artefact.cpp", '#include "runtime/format/manifest.h"', '#include "lower/pipeline.h"',
                           "#include <tilewright/runtime.h>", "#include <nlohmann/json.hpp>", "#include <sys/stat.h>")
        self.assert_passes("src/measure/a.cpp", '#include "runtime/format/manifest.h"')
        self.assert_passes("tools/tilewright/run.cpp", "#include <tilewright/runtime.h>", '#include "driver/compile.h"',
                           '#include "support/error.h"', "#include <CLI/CLI.hpp>")
        self.assert_passes("runtime/loader.cpp", '#include "runtime/format/manifest.h"', "#include <llvm-c/blake3.h>")

    def test_higher_layers(self):
        self.assert_fails("src/core/a.cpp", '#include "te/te.h"', "src/core (layer 1)", "src/te (layer 2)", "above")
        self.assert_fails("src/lower/a.h", '#  include "../driver/compile.h"', "src/driver")

    def test_siblings(self):
        self.assert_fails("src/ops/conv.cpp", '#include "schedule/schedule.h"', "sibling src/schedule")
        self.assert_fails("src/te/a.cpp", '#include "graph/graph.h"', "sibling src/graph")
        self.assert_fails("src/core/a.cpp", '#include "expr/expr.h"', "sibling src/expr")
        self.assert_fails("src/codegen/cuda/a.cpp", '#include "codegen/llvm/emit.h"', "sibling src/codegen/llvm")

    def test_runtime_and_compiler_stay_apart(self):
        self.assert_fails("runtime/loader.cpp", '#include "support/error.h"', "runtime (runtime)", "src/support (compiler)")
        self.assert_fails("runtime/format/a.cpp", '#include "runtime/arena.h"', "above")
        self.assert_fails("src/driver/a.cpp", '#include "runtime/arena.h"', "src/driver (compiler)")
        self.assert_fails("src/lower/a.cpp", '#include "runtime/format/manifest.h"', "src/lower")
        self.assert_fails("tools/tilewright/a.cpp", '#include "codegen/llvm/emit.h"', "beyond the folders allowed by name")
        self.assert_fails("tools/tilewright/a.cpp", '#include "runtime/arena.h"', "tools (compiler)")
        self.assert_fails("examples/a.cpp", '#include "support/error.h"', "examples")

    def test_third_party(self):
        self.assert_fails("src/lower/a.cpp", "#include <llvm/IR/Module.h>", "src/codegen/llvm only")
        self.assert_fails("src/core/a.cpp", '#include "llvm-c/blake3.h"', "src/support, runtime only")
        self.assert_fails("src/graph/a.cpp", '#include "onnx-ml.pb.h"', "src/frontend/onnx only")
        self.assert_fails("src/codegen/llvm/a.cpp", "#include <cuda.h>", "no line of the list names it")
        self.assert_fails("src/driver/a.cpp", "#include <sqlite3.h>", "src/database only")
        self.assert_fails("runtime/a.cpp", "#include <fmt/format.h>", "src, tools only")
        self.assert_fails("src/core/a.cpp", "#include <boost/any.hpp>", "no line of the list names it")
        self.assert_fails("src/core/a.cpp", '#include "core/missing.h"', "no line of the list names it")

    def test_a_folder_outside_the_list(self):
        self.assert_fails("src/shiny/a.cpp", '#include "support/error.h"', "lies in no folder of the list")

    def test_includes_in_comments_do_not_count(self):
        self.assert_passes("src/core/a.cpp", '// #include "te/te.h"')

    def test_rooms(self):
        self.assert_passes("src/construct/gpu/a.cpp", '#include "construct/construct.h"')
        self.assert_fails("src/construct/gpu/a.cpp", '#include "construct/cpu/tile.h"', "sibling src/construct/cpu")
        self.assert_fails("src/construct/a.cpp", '#include "construct/cpu/tile.h"', "above")
        self.assert_fails("src/driver/code/a.cpp", '#include "driver/options.h"', "src/driver/options", "above")

    def test_circles_of_files(self):
        self.write("src/te/a.h", '#include "te/b.h"\n')
        self.write("src/te/b.h", "#pragma once\n")
        self.write("src/te/b.cpp", '#include "te/b.h"\n\n#include "te/c.h"\n')
        self.write("src/te/c.h", '#include "te/a.h"\n')
        code, lines = self.run_check()
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertIn("3 files include one another: src/te/a, src/te/b, src/te/c", lines[0])
        self.assertIn("src/te/b.cpp:3", lines[0])
        self.write("src/te/c.h", "#pragma once\n")
        self.assertEqual(self.run_check(), (0, []))

    def test_full_folders(self):
        for i in range(30):
            self.write(f"src/ops/op{i}.cpp", "")
        self.assertEqual(self.run_check(), (0, []))
        self.write("src/ops/one_more.cpp", "")
        self.assertEqual(self.run_check(), (1, ["src/ops:1: 31 sources in one folder, at most 30: give it rooms"]))

    def test_permissions_that_nothing_needs(self):
        rules = self.root / "rules.txt"
        rules.write_text("stack a\nlayer src/te src/graph\nallow src/graph -> src/te\nthird-party zip.h : src/te\n")
        source = self.root / "src/graph/use.cpp"
        for text, expected in (("", ["allow src/graph -> src/te", "third-party zip.h : src/te"]),
                               ('#include "te/te.h"\n', ["third-party zip.h : src/te"])):
            source.write_text(text)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                check_layers.main(["--root", str(self.root), "--rules", str(rules)])
            unused = [line for line in out.getvalue().splitlines() if "nothing needs" in line]
            self.assertEqual(unused, [f"rules.txt:1: nothing needs '{line}'" for line in expected])

    def test_malformed_rules(self):
        for line in ["layer src/core", "stack a\nlayer", "allow src/a src/b", "stack a\nlayer x\nlayer x", "whatever"]:
            rules = self.root / "rules.txt"
            rules.write_text(line + "\n")
            self.assertEqual(self.run_check(rules)[0], 2, line)


if __name__ == "__main__":
    unittest.main()
