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
from harness import artefacts, edges, gpu_engines, jax_model, medians, onnx_folding, rounds  # noqa: E402
from models import convnets, operators, transformers  # noqa: E402
from suites import gpu  # noqa: E402
from suites.case import Case  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TW_BUILD", ROOT / "build/release"))
COMMANDS = [p for p in [BUILD / "tools" / "tilewright"] if p.is_file()]
HAS_TORCH, HAS_JAX = (importlib.util.find_spec(name) is not None for name in ("torch", "jax"))


# As exporters write what torch says in one word each: the rows of a tensor counted at run time, weights by another name.
EXPORTED = """<ir_version: 8, opset_import: ["" : 17]>
exported (float[2, 3, 7, 7] x) => (float[2, 27] y, float[2, 1, 9] z)
<float[3] weight = {1.5, -2.0, 0.5}, int64[1] one = {1}, int64 zero = {0}, int64[1] tail = {-1}, int64[1] axis = {0},
 int64[8] around = {0, 0, 0, 1, 0, 0, 1, 0}, float value = {2.0}, int64[1] last = {3}, int64 second = {1}>
{
  shape = Shape(x)
  count = Gather(shape, zero)
  rows = Unsqueeze(count, axis)
  flat = Concat<axis = 0>(rows, tail)
  gain = Identity(weight)
  scaled = HardSigmoid<alpha = 0.3, beta = 0.4>(x)
  pooled = MaxPool<kernel_shape = [3, 3], strides = [3, 3], ceil_mode = 1>(scaled)
  y = Reshape(pooled, flat)
  scale = Abs(weight)
  normal = BatchNormalization(x, gain, weight, weight, scale)
  padded = Pad(normal, around, value)
  means = AveragePool<kernel_shape = [3, 3], strides = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(padded)
  channel = Gather<axis = 1>(means, second)
  whole = Concat<axis = 0>(rows, one, tail)
  z = Reshape(channel, whole)
}"""


NEWER = """<ir_version: 9, opset_import: ["" : 20]>
newer (float[2, 6] x) => (float[2, 6] y, int64[2, 6] z)
<int64[2] sizes = {2, 4}, int64[2] shape = {2, 6}, float half = {0.5}>
{
  a, b = Split<axis = 1>(x, sizes)
  c = Gelu<approximate = "tanh">(a)
  d = Gelu(b)
  e = Concat<axis = 1>(c, d)
  f = Neg(e)
  g = Sub(half, f)
  y = Reciprocal(g)
  first = ArgMax<axis = 1>(x)
  same = Equal(first, first)
  as_int = Cast<to = 7>(x)
  is_one = Cast<to = 7>(same)
  all = Add(as_int, is_one)
  z = Expand(all, shape)
}"""


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

    def exported(self):
        path = self.folder / "exported.onnx"
        onnx.save(onnx.parser.parse_model(EXPORTED), path)
        np.savez(path.with_suffix(".npz"), x=np.random.default_rng(0).standard_normal((2, 3, 7, 7), np.float32))
        return path

    def test_what_is_known_beforehand_is_folded(self):
        path = self.exported()
        model, feeds = onnx.load(path), np.load(path.with_suffix(".npz"))
        folded = onnx_folding.fold_constants(model)
        self.assertEqual([n.op_type for n in folded.graph.node],
                         ["HardSigmoid", "MaxPool", "Reshape", "BatchNormalization", "Pad", "AveragePool", "Gather",
                          "Reshape"])
        for got, want in zip(self.outputs(folded, feeds), self.outputs(model, feeds), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

    def test_convolutions_say_their_kernel_shape(self):
        weight = onnx.numpy_helper.from_array(np.ones((4, 3, 3, 1), np.float32), "w")
        value = onnx.helper.make_tensor_value_info
        model = onnx.helper.make_model(onnx.helper.make_graph(
            [onnx.helper.make_node("Identity", ["w"], ["v"]), onnx.helper.make_node("Conv", ["x", "v"], ["y"])], "one",
            [value("x", 1, [1, 3, 7, 7])], [value("y", 1, [1, 4, 5, 7])], [weight]))
        path, feeds = self.folder / "one.onnx", {"x": np.random.default_rng(0).standard_normal((1, 3, 7, 7), np.float32)}
        onnx.save(model, path)
        np.savez(path.with_suffix(".npz"), **feeds)
        job = {"model": str(path), "feeds": str(path.with_suffix(".npz")), "dtype": "f32", "device": "cpu"}
        want = self.outputs(model, feeds)
        for has, engine in ((HAS_TORCH, gpu_engines.Reference), (HAS_JAX, gpu_engines.Xla)):
            self.assertLess(medians.largest_difference(engine(job).outputs() if has else want, want), 1e-5)
        [conv] = onnx_folding.fold_constants(model).graph.node
        self.assertEqual([list(a.ints) for a in conv.attribute if a.name == "kernel_shape"], [[3, 1]])

    def test_peers_compute_what_exporters_write(self):
        path = self.exported()
        job = {"model": str(path), "feeds": str(path.with_suffix(".npz")), "dtype": "f32", "device": "cpu"}
        want = self.outputs(onnx.load(path), np.load(path.with_suffix(".npz")))
        for has, engine in ((HAS_TORCH, gpu_engines.Reference), (HAS_JAX, gpu_engines.Xla)):
            for got, wanted in zip(engine(job).outputs() if has else want, want, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)

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
    def test_jax_computes_what_newer_exporters_write(self):
        model = onnx.parser.parse_model(NEWER)
        path, feeds = self.folder / "newer.onnx", {"x": np.random.default_rng(0).standard_normal((2, 6), np.float32)}
        onnx.save(model, path)
        function, weights = jax_model.convert(path, ["x"], np.float32)
        want = self.outputs(model, feeds)
        for got, wanted in zip(function(weights, feeds["x"]), want, strict=True):
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4, atol=1e-5)
            self.assertGreater(np.std(wanted), 0)

    def test_jax_names_all_operators_that_it_lacks(self):
        path = self.folder / "odd.onnx"
        onnx.save(onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> odd (float[2] x) => (float[2] y)
            { a = Sinh(x) b = Atan(a) y = Neg(b) }"""), path)
        with self.assertRaisesRegex(NotImplementedError, "Atan, Sinh is not"):
            jax_model.convert(path, ["x"], np.float32)

    @unittest.skipUnless(HAS_JAX, "not run: no jax")
    def test_jax_computes_what_the_graph_says(self):
        for path in (self.resnet(), self.bert()):
            feeds = np.load(path.with_suffix(".npz"))
            job = {"model": str(path), "feeds": str(path.with_suffix(".npz")), "dtype": "f32", "device": "cpu"}
            engine = gpu_engines.Xla(job)
            want = self.outputs(onnx.load(path), feeds)
            self.assertLess(medians.largest_difference(engine.outputs(), want), 1e-4, path)
            self.assertEqual(len(engine.measure({"warm_up": 0, "duration": 0, "runs": 1})), 1)

    def test_a_row_waits_until_the_gpu_finds_every_run_submitted(self):
        """A host that needs a unit of time for a replay, and a GPU that waits and then takes `run` for each."""
        for run_, wanted in ((0.25, 2), (0.9, 0), (30.0, 0)):
            shortest, state = 2.0, {"host": 0.0, "gpu": 0.0}
            waits = []

            class Event:
                def __init__(self, enable_timing):
                    pass

                def record(self):
                    self.done = state["gpu"]

                def query(self):
                    return self.done <= state["host"]

                def elapsed_time(self, other):
                    return other.done - self.done

            def replay():
                state["host"] += 1
                state["gpu"] = max(state["gpu"], state["host"]) + run_

            def sleep(cycles):
                waits.append(cycles)
                state["gpu"] = max(state["gpu"], state["host"]) + cycles

            def synchronize():
                state["host"] = max(state["host"], state["gpu"])
            cuda = types.SimpleNamespace(Event=Event, _sleep=sleep, synchronize=synchronize)
            with unittest.mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=cuda)), \
                    unittest.mock.patch.object(gpu_engines, "SHORTEST_DELAY", shortest):
                replays = gpu_engines.Replays()
                for time_ in replays.times(replay, 8):
                    self.assertAlmostEqual(time_, run_)
                self.assertEqual(waits, [shortest * 2**k for k in range(wanted + 1)])
                replays.times(replay, 8)  # what sufficed once is where the next row begins
                self.assertEqual(waits[-1], waits[-2])

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
        case = Case("resnet18", path, "network", 2)
        pool, processes = self.enterContext(rounds.Pool()), set()
        for dtype in ("f32", "f16"):
            args = types.SimpleNamespace(pool=pool, tools=artefacts.find_tools(COMMANDS[0]), target="cpu", dtype=dtype,
                                         compile_flags="--no-measure", engines=["tilewright", "eager", "nosuch"], rates=None,
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
