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
           "src/loop/loop.h", "src/schedule/schedule.h", "src/ops/list.h", "src/lower/pipeline.h", "src/tune/measure.h",
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
        arguments = ["--root", str(self.root), "--rules", str(rules or ROOT / "scripts/layers.txt")]
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
        self.assert_passes("src/tune/measure.cpp", '#include "runtime/format/manifest.h"')
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
        self.assert_fails("src/tune/search.cpp", '#include "runtime/format/manifest.h"', "src/tune")
        self.assert_fails("tools/tilewright/a.cpp", '#include "codegen/llvm/emit.h"', "beyond the folders allowed by name")
        self.assert_fails("tools/tilewright/a.cpp", '#include "runtime/arena.h"', "tools (compiler)")
        self.assert_fails("examples/a.cpp", '#include "support/error.h"', "examples")

    def test_third_party(self):
        self.assert_fails("src/lower/a.cpp", "#include <llvm/IR/Module.h>", "src/codegen/llvm only")
        self.assert_fails("src/core/a.cpp", '#include "llvm-c/blake3.h"', "src/support, runtime only")
        self.assert_fails("src/graph/a.cpp", '#include "onnx-ml.pb.h"', "src/frontend/onnx only")
        self.assert_fails("src/codegen/llvm/a.cpp", "#include <cuda.h>", "runtime/device/cuda only")
        self.assert_fails("runtime/device/cpu/a.cpp", "#include <nvrtc.h>", "src/codegen/cuda")
        self.assert_fails("src/tune/search/a.cpp", "#include <sqlite3.h>", "src/tune/database only")
        self.assert_fails("runtime/a.cpp", "#include <fmt/format.h>", "src, tools only")
        self.assert_fails("src/core/a.cpp", "#include <boost/any.hpp>", "no line of the list names it")
        self.assert_fails("src/core/a.cpp", '#include "core/missing.h"', "no line of the list names it")

    def test_a_folder_outside_the_list(self):
        self.assert_fails("src/shiny/a.cpp", '#include "support/error.h"', "lies in no folder of the list")

    def test_includes_in_comments_do_not_count(self):
        self.assert_passes("src/core/a.cpp", '// #include "te/te.h"')

    def test_malformed_rules(self):
        for line in ["layer src/core", "stack a\nlayer", "allow src/a src/b", "stack a\nlayer x\nlayer x", "whatever"]:
            rules = self.root / "rules.txt"
            rules.write_text(line + "\n")
            self.assertEqual(self.run_check(rules)[0], 2, line)


if __name__ == "__main__":
    unittest.main()
