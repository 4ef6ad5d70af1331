"""The harness for GPUs where there is none: engines on the CPU's tensors, conversions, batch norms folded, edges of 16 bits."""
import gc
import importlib.util
import os
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock
import weakref

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
import run  # noqa: E402
from harness import artefacts, edges, gpu_engines, medians, onnx_folding, rounds  # noqa: E402
from models import convnets, operators, transformers  # noqa: E402
from suites import gpu  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TW_BUILD", ROOT / "build/release"))
COMMANDS = [p for p in BUILD.glob("**/tilewright") if p.is_file() and os.access(p, os.X_OK)]
HAS_TORCH, HAS_JAX = (importlib.util.find_spec(name) is not None for name in ("torch", "jax"))


def gpu_conv():
    return {"name": "conv", "op": "conv", "batch": 2, "cin": 3, "cout": 4, "in": [5, 6], "kernel": [3, 3]}


class Models(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def save(self, builder, name):
        path = self.folder / f"{name}.onnx"
        onnx.save(builder.model(), path)
        np.savez(path.with_suffix(".npz"), **builder.feeds)
        return path

    def resnet(self):
        return self.save(convnets.NETWORKS["resnet18"]("resnet18", seed=0, batch=2, dynamic=False, small=True), "resnet18")

    def bert(self):
        builder = transformers.NETWORKS["bert_tiny"]("bert_tiny", layernorm="decomposed", seed=0, batch=2, dynamic=False,
                                                     small=True)
        return self.save(builder, "bert_tiny")

    @staticmethod
    def outputs(model, feeds):
        return ReferenceEvaluator(model).run(None, dict(feeds))

    def test_folded_batch_norms_change_no_output(self):
        path = self.resnet()
        feeds, model = np.load(path.with_suffix(".npz")), onnx.load(path)
        want = self.outputs(model, feeds)
        folded = onnx_folding.fold_batch_norms(model)
        self.assertNotIn("BatchNormalization", [n.op_type for n in folded.graph.node])
        self.assertLess(medians.largest_difference(self.outputs(folded, feeds), want), 1e-5)

    def test_channels_last(self):
        builder = operators.build(gpu_conv(), 0)
        path = self.save(builder, "conv")
        last = edges.channels_last(path)
        feeds = edges.feeds_for(last, builder.feeds)
        self.assertEqual(feeds["x"].shape, (2, 5, 6, 3))
        onnx.checker.check_model(onnx.load(last), full_check=True)
        want = np.moveaxis(self.outputs(onnx.load(path), builder.feeds)[0], 1, -1)
        np.testing.assert_allclose(self.outputs(onnx.load(last), feeds)[0], want, rtol=1e-5, atol=1e-6)
        self.assertEqual(edges.channels_last(self.bert()).name, "bert_tiny.onnx")

    def test_narrow_edges(self):
        path = self.resnet()
        narrow = onnx.load(edges.with_type(path, "f16"))
        onnx.checker.check_model(narrow, full_check=True)
        types_ = {v.type.tensor_type.elem_type for v in [*narrow.graph.input, *narrow.graph.output]}
        self.assertEqual(types_, {onnx.TensorProto.FLOAT16})
        self.assertEqual(edges.with_type(path, "f32"), path)

    @unittest.skipUnless(HAS_JAX, "not run: no jax")
    def test_jax_computes_what_the_graph_says(self):
        for path in (self.resnet(), self.bert()):
            feeds = np.load(path.with_suffix(".npz"))
            job = {"model": str(path), "feeds": str(path.with_suffix(".npz")), "dtype": "f32", "device": "cpu"}
            engine = gpu_engines.Xla(job)
            want = self.outputs(onnx.load(path), feeds)
            self.assertLess(medians.largest_difference(engine.outputs(), want), 1e-4, path)
            self.assertEqual(len(engine.measure({"warm_up": 0, "duration": 0, "runs": 1})), 1)

    def test_a_row_is_submitted_before_its_first_run_begins(self):
        """A GPU that waits d cycles, and a host that needs 3e5 of them for two replays."""
        log = []

        class Event:
            def __init__(self, enable_timing):
                log.append("event")

            def record(self):
                pass

            def query(self):
                return log[-1] < 3e5  # as long as the last wait

            def elapsed_time(self, other):
                return 0.5
        cuda = types.SimpleNamespace(Event=Event, _sleep=log.append, synchronize=lambda: None)
        with unittest.mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=cuda)):
            replays = gpu_engines.Replays()
        self.assertEqual(replays.times(lambda: None, 2), [0.5, 0.5])
        waits = [entry for entry in log if entry != "event"]
        self.assertEqual(waits, [gpu_engines.SHORTEST_DELAY << k for k in range(3)])
        replays.times(lambda: None, 1)  # what sufficed once is where the next row begins
        self.assertEqual(log[-1], waits[-1])

    @unittest.skipUnless(HAS_TORCH, "not run: no torch")
    def test_what_a_graph_reads_lives_as_long_as_the_engine(self):
        path, read = self.resnet(), []

        class Captures(gpu_engines.Calls):
            """As a CUDA graph: holds neither the function nor its tensors."""
            def capture(self, run_):
                read.extend(weakref.ref(t) for t in [*run_.__defaults__[0], *self.module.parameters()])
                return None, run_()

        class Engine(gpu_engines.Torch):
            def prepare(self, torch, module):
                Captures.module = module
                return lambda *tensors: module(*tensors)
        job = {"model": str(path), "feeds": str(path.with_suffix(".npz")), "dtype": "f32", "device": "cpu"}
        with unittest.mock.patch.object(gpu_engines, "Calls", Captures):
            engine = Engine(job)
        del Captures.module
        gc.collect()
        self.assertTrue(read and all(r() is not None for r in read), engine.version)

    @unittest.skipUnless(HAS_TORCH and COMMANDS, "not run: no torch, or no tilewright command")
    def test_one_case_from_end_to_end(self):
        path = self.resnet()
        case = types.SimpleNamespace(name="resnet18", family="network", batch=2, flop=0.0, torch=None, model=path,
                                     feeds=path.with_suffix(".npz"))
        pool, processes = self.enterContext(rounds.Pool()), set()
        for dtype in ("f32", "f16"):
            args = types.SimpleNamespace(pool=pool, tools=artefacts.find_tools(COMMANDS[0]), target="cpu", dtype=dtype,
                                         compile_flags="--no-measure", engines="tilewright,eager,nosuch",
                                         variants={"unfused": "--disable-pass fuse"},
                                         protocol=rounds.Protocol(3, 0.0, 0.01, 2))
            row = run.compare_on_gpu(case, args, device="cpu")[0]
            self.assertEqual(set(row["engines"]), {"tilewright", "tilewright:unfused", "eager"}, row["failed"])
            self.assertEqual(set(row["failed"]), {"nosuch"})
            self.assertEqual((row["best_peer"], row["dtype"]), ("eager", dtype))
            job = {"label": "eager", "engine": "eager", "threads": 1}
            kept = pool.worker(job, rounds.every_core(), args.protocol).process.pid
            processes.add(kept)
            self.assertEqual(len(processes), 1)
            for facts in row["engines"].values():
                self.assertLess(facts["difference"], gpu_engines.TOLERANCE[dtype][1])


class Rows(unittest.TestCase):
    def test_inputs_rotate_and_rows_are_long_beside_one_run(self):
        asked = []

        def row(index, count):
            asked.append((index, count))
            return [5.0] * count
        times = gpu_engines.timed_rows(row, {"warm_up": 0, "duration": 0, "runs": 35}, 3)
        self.assertEqual(len(times), 40)
        self.assertEqual(asked, [(0, 1), (0, 10), (1, 10), (2, 10), (0, 10)])


    def test_large_inputs_are_in_one_place(self):
        job = {"model": "m", "feeds": "f", "dtype": "f16"}
        feeds = {"x": np.arange(12, dtype=np.float32).reshape(3, 4), "n": np.int64(2)}
        with unittest.mock.patch.object(gpu_engines, "feeds_of", lambda job: feeds), \
                unittest.mock.patch.object(gpu_engines.edges, "feeds_for", lambda model, given: given):
            sets = gpu_engines.input_sets(job)
            with unittest.mock.patch.object(gpu_engines, "LARGE_BYTES", 24 + 8):
                self.assertEqual(len(gpu_engines.input_sets(job)), 1)
        self.assertEqual([s["x"][0, 0] for s in sets], [0, 8, 4])
        self.assertEqual({s["x"].dtype for s in sets}, {np.dtype(np.float16)})


class Suites(unittest.TestCase):
    def test_suites_have_what_they_say(self):
        self.assertEqual(len(set(gpu.GEMMS)), 30)
        for suite, specs in gpu.SPECS.items():
            names = [s["name"] for s in specs()]
            self.assertEqual(len(names), len(set(names)), suite)


if __name__ == "__main__":
    unittest.main()
