#!/usr/bin/env python3
"""Reports of models of several kinds, as a headless Chromium shows them: nothing in the console, no request, nothing
wider than the window, with scripts and without.

  TILEWRIGHT=PATH [TW_MODELS_DIR=DIR] python3 report_test.py CLASS [--pictures DIR]

Exit code 77 when all tests of the class were skipped: no Chromium, or no model of scripts/make_models.py.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import onnx_bytes as ob  # noqa: E402

import browser  # noqa: E402

TILEWRIGHT = os.environ["TILEWRIGHT"]
os.environ |= {"TILEWRIGHT_CACHE_DIR": "/dev/null", "TILEWRIGHT_DB": "/dev/null"}
os.environ.pop("TILEWRIGHT_NO_MEASURE", None)  # what is measured of candidates is part of a report
PICTURES = None
SECTIONS = ["summary", "time", "roofline", "graph", "memory", "candidates", "timeline", "layouts", "layout-times", "accuracy", "compiling",
            "compared", "peer", "groups"]
# Quotes, tags, an end of the script, letters of the other direction with an override, nothing at all, and 4 kB.
HOSTILE = ["</script><script>document.title='owned'</script>", "\"' onmouseover=alert(1) x='", "<img src=http://127.0.0.1:9/x>",
           "\u202eevil\u202c \u05d0\u05d1\u05d2 \u0627\u0628", "", "long" * 1000, "a&amp;b <!-- ]]> --> \\ \t {} %s", "\u0001\u0002"]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)

    def run_command(self, *words):
        return subprocess.run([TILEWRIGHT, *words], cwd=self.folder, capture_output=True, text=True, timeout=600)

    def succeeds(self, *words):
        done = self.run_command(*words)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
        return done


class Files(Case):
    """What other verbs write for other viewers: needs no browser."""

    def setUp(self):
        (self.folder / "dense.onnx").write_bytes(ob.dense(128, 256, 512))
        self.succeeds("compile", "dense.onnx", "-o", "dense.tw")

    def test_explain_has_candidates_as_numbers(self):
        group, = json.loads(self.succeeds("explain", "dense.tw", "--no-run", "--json").stdout)["groups"]
        timed = [c for c in group["other_candidates"] if c["measured_us"] is not None]
        self.assertGreater(len(timed), 0)
        for candidate in timed:
            self.assertAlmostEqual(candidate["ratio"], candidate["measured_us"] / group["measured_us"], 4)
            self.assertGreater(candidate["predicted_us"], 0)
            self.assertTrue(candidate["differs"], "nobody can tell which schedule it was")
        times = [c["measured_us"] for c in timed]
        self.assertNotIn(group["measured_us"], times, "the chosen one is among its own rivals")
        text = self.succeeds("explain", "dense.tw", "--no-run").stdout
        self.assertIn("times the chosen one)", text)
        self.assertIn("(chosen: ", text)

    def test_a_trace_for_perfetto(self):
        self.succeeds("bench", "dense.tw", "--duration", "0.1", "--warm-up", "1", "--trace-out", "trace.json")
        events = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        step, = [e for e in events if e["ph"] == "X"]
        self.assertEqual(step["name"], "MatMul_0+Add_0+Relu_0")
        self.assertGreater(step["dur"], 0)
        self.assertEqual({e["name"] for e in events if e["ph"] == "M"}, {"process_name", "thread_name"})
        done = self.run_command("bench", "dense.tw", "--trace-out", "dense.tw")
        self.assertEqual(done.returncode, 2, done.stderr)
        done = self.run_command("report", "dense.tw", "--no-run", "--trace-out", "trace.json")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_groups_for_netron(self):
        self.succeeds("inspect", "dense.tw", "--onnx", "groups.onnx")
        data = json.loads(self.succeeds("inspect", "groups.onnx", "--json").stdout)
        self.assertEqual(data["inputs"]["x"].replace(" ", ""), "f32[128,256]")
        self.assertEqual(sum(data["operators"].values()), 1)
        family, = data["operators"]
        self.assertIn("contraction", family)
        content = (self.folder / "groups.onnx").read_bytes()
        for fact in (b"time", b" us", b"operators", b"MatMul_0 (matmul), Add_0 (add), Relu_0 (relu)", b"layout y", b"rows"):
            self.assertIn(fact, content)
        done = self.run_command("inspect", "dense.onnx", "--onnx", "groups.onnx")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("compile 'dense.onnx' first", done.stderr)


class Pages(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = browser.find_chromium()
        if path is None:
            raise unittest.SkipTest("not run: no Chromium (scripts/install_packages.sh installs it)")
        cls.browser = browser.Browser(path)
        cls.addClassCleanup(cls.browser.close)

    def model(self, name):
        path = pathlib.Path(os.environ.get("TW_MODELS_DIR") or "/nowhere") / f"{name}.onnx"
        if not path.exists():
            self.skipTest(f"not run: no {path} (scripts/make_models.py makes it)")
        return str(path)

    def report(self, model, *options, name="report.html"):
        self.succeeds("report", model, "-o", name, "--duration", "0.2", "--warm-up", "10", *options)
        return self.folder / name

    def data_of(self, page):
        block = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page.read_text(), re.S)
        data = json.loads(block.group(1))
        self.assertEqual(data["schema"], "tilewright.report/1")
        return data

    def check_page(self, page, most_bytes):
        """What must hold of every page; returns its data."""
        self.assertLess(page.stat().st_size, most_bytes)
        url = page.as_uri()
        for width in (1280, 400):
            for scripts in (True, False):
                with self.subTest(width=width, scripts=scripts):
                    seen = self.browser.show(url, width, scripts=scripts)
                    self.assertEqual(seen.errors, [])
                    self.assertEqual([r for r in seen.requests if r != url and not r.startswith("data:")], [])
                    self.assertLessEqual(self.browser.overflow(), 0)
                    found = self.browser.evaluate("[...document.querySelectorAll('main > section')].map(s => s.id)")
                    self.assertEqual(found, SECTIONS)
                    empty = self.browser.evaluate("[...document.querySelectorAll('main > section')].filter(s => "
                                                  "!s.querySelector('svg, table, .missing, .cards')).map(s => s.id)")
                    self.assertEqual(empty, [])
            if PICTURES:
                self.take_pictures(url, page.stem, width)
        self.check_script(url)
        return self.data_of(page)

    def check_script(self, url):
        """A key chooses the slowest group everywhere; a heading sorts."""
        self.browser.show(url, 1280)
        slowest = self.browser.evaluate("JSON.parse(document.getElementById('report-data').textContent).groups[0]?.id")
        if slowest is None:
            return
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", key="j", text="j")
        self.assertGreater(self.browser.evaluate(f"document.querySelectorAll('[data-g=\"{slowest}\"].selected').length"), 0)
        self.assertFalse(self.browser.evaluate("document.getElementById('choice').hidden"))
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
        self.assertTrue(self.browser.evaluate("document.getElementById('choice').hidden"))
        names = "[...document.querySelectorAll('#groups tbody')[0].rows].map(r => r.cells[2].dataset.v * 1)"
        before = self.browser.evaluate(names)
        self.assertEqual(before, sorted(before, reverse=True))
        self.browser.evaluate("document.querySelectorAll('#groups thead button')[2].click()")
        self.browser.evaluate("document.querySelectorAll('#groups thead button')[2].click()")
        self.assertEqual(self.browser.evaluate(names), sorted(before))

    def take_pictures(self, url, name, width):
        for dark in (False, True):
            self.browser.show(url, width, dark=dark)
            scheme = "dark" if dark else "light"
            for section in SECTIONS:
                self.browser.picture_of(f"#{section}", f"{PICTURES}/{name}-{width}-{scheme}-{section}.png")


class Small(Pages):
    """A perceptron of one layer: all that needs no model of scripts/make_models.py."""

    def setUp(self):
        (self.folder / "dense.onnx").write_bytes(ob.dense(128, 256, 512))

    def test_everything_that_can_be_there_is(self):
        data = self.check_page(self.report("dense.onnx", "--trace-out", "trace.json"), 400_000)
        self.assertTrue(data["verified"]["ok"])
        self.assertGreater(data["latency"]["runs"], 9)
        self.assertGreater(len(data["passes"]), 5)
        group, = data["groups"]
        self.assertGreater(group["us"], 0)
        timed = [c for c in group["candidates"] if c["measured_us"]]
        self.assertGreater(len(timed), 0)
        for candidate in timed:
            self.assertAlmostEqual(candidate["ratio"], candidate["measured_us"] / group["measured_us"], 3)
            self.assertTrue(candidate["differs"])
        trace = json.loads((self.folder / "trace.json").read_text())
        steps = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        self.assertEqual(len(steps), 1)
        self.assertGreater(steps[0]["dur"], 0)

    def test_missing_data_says_why(self):
        self.succeeds("compile", "dense.onnx", "-o", "dense.tw", "--no-measure")
        page = self.report("dense.tw", "--no-run")
        data = self.check_page(page, 200_000)
        for key in ("latency", "verified", "passes", "compared", "peer"):
            self.assertTrue(data[key]["missing"], key)
        self.browser.show(page.as_uri(), 1280)
        why = self.browser.evaluate("[...document.querySelectorAll('.missing')].map(m => m.textContent)")
        self.assertIn("--no-run", " ".join(why))
        self.assertIn("--compare old.tw", " ".join(why))

    def test_another_artefact_and_another_engine(self):
        self.succeeds("compile", "dense.onnx", "-o", "new.tw", "--no-measure")
        self.succeeds("compile", "dense.onnx", "-o", "old.tw", "--no-measure", "--no-optional-passes", "--precision", "strict")
        peer = {"model": "another engine", "latency_ms": {"p10": 2.0, "median": 2.5, "mean": 2.75, "n": 100}}
        (self.folder / "peer.json").write_text(json.dumps(peer))
        data = self.check_page(self.report("new.tw", "--compare", "old.tw", "--peer", "peer.json", "--no-verify"), 300_000)
        self.assertEqual(data["peer"]["name"], "another engine")
        self.assertEqual(data["peer"]["latency"]["p10_ms"], 2.0)
        self.assertEqual(data["compared"]["outputs"][0]["elements"], 128 * 512)
        self.assertLess(data["compared"]["outputs"][0]["largest"], 1e-3)
        self.assertGreater(data["compared"]["latency"]["runs"], 9)
        wrong = self.run_command("report", "new.tw", "--peer", "new.tw")
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn("--peer 'new.tw'", wrong.stderr)
        (self.folder / "empty.json").write_text("{}")
        wrong = self.run_command("report", "new.tw", "--no-run", "--peer", "empty.json")
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn("latency_ms", wrong.stderr)


class Hostile(Pages):
    def test_names_of_others_do_nothing(self):
        names = [f"{name}{i}" if name else "" for i, name in enumerate(HOSTILE)]
        values = ["x", *(f"{name} value {i}" for i, name in enumerate(HOSTILE)), "y"]
        ops = ["Relu", "Softmax", "Neg", "Softmax", "Sigmoid", "Softmax", "Tanh", "Softmax"]
        nodes = [ob.node(op, [values[i]], [values[i + 1]], names[i]) for i, op in enumerate(ops)]
        nodes.append(ob.node("Exp", [values[-2]], ["y"], "last"))
        shape = [64, 96]
        (self.folder / "hostile.onnx").write_bytes(ob.model(nodes, [ob.value_info("x", shape)], [ob.value_info("y", shape)]))
        page = self.report("hostile.onnx", "--no-measure")
        self.check_page(page, 600_000)
        self.browser.show(page.as_uri(), 1280)
        self.assertEqual(self.browser.evaluate("document.title"), "hostile.onnx - Tilewright report")
        self.assertEqual(self.browser.evaluate("document.images.length"), 0)
        self.assertEqual(self.browser.evaluate("document.scripts.length"), 2)
        text = self.browser.evaluate("document.body.textContent")
        self.assertIn("document.title='owned'", text)  # as a text, that is


class Gpu(Pages):
    def test_an_artefact_for_a_gpu_that_is_not_there(self):
        (self.folder / "dense.onnx").write_bytes(ob.dense(128, 256, 512))
        done = self.run_command("compile", "dense.onnx", "-o", "gpu.tw", "--target", "cuda:sm_90a", "--no-measure")
        if done.returncode == 3 and "unsupported" in done.stderr:
            self.skipTest(f"not run: {done.stderr}")
        data = self.check_page(self.report("gpu.tw", "--no-run"), 400_000)
        self.assertEqual(data["level"], "sm_90a")


class Networks(Pages):
    def check_network(self, name, most_bytes, *options):
        page = self.report(self.model(name), "--no-measure", *options, name=f"{name}.html")
        data = self.check_page(page, most_bytes)
        self.assertGreater(data["total_us"], 0)
        self.assertGreater(data["memory"]["needed_bytes"], 0)
        self.assertGreaterEqual(data["memory"]["arena_bytes"], data["memory"]["needed_bytes"])

    def test_mlp(self):
        page = self.report(self.model("mlp"), "--no-measure", name="mlp.html")
        self.check_page(page, 400_000)

    def test_resnet50(self):
        self.check_network("resnet50", 1_500_000, "--no-verify")

    def test_a_transformer(self):
        self.check_network("bert_tiny", 1_500_000)


if __name__ == "__main__":
    words = sys.argv[1:]
    if "--pictures" in words:
        PICTURES = words[words.index("--pictures") + 1]
        os.makedirs(PICTURES, exist_ok=True)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(globals()[words[0]])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    for _, reason in result.skipped:
        print(f"not run: {reason}")
    skipped = result.skipped and len(result.skipped) >= result.testsRun
    sys.exit(1 if not result.wasSuccessful() else 77 if skipped else 0)
