"""bench/suites/transformers.py: which cases there are, modules that compute, exported models that say the same, states."""
import contextlib
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
import run  # noqa: E402
import suites  # noqa: E402
from harness import artefacts, gpu_engines, rounds, tilewright_runtime  # noqa: E402
from suites import torch_modules, transformers  # noqa: E402
from suites.case import Options  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TW_BUILD", ROOT / "build/release"))
COMMANDS = [p for p in [BUILD / "tools" / "tilewright"] if p.is_file()]
HAS_MODULES = all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers"))

STEP = """<ir_version: 8, opset_import: ["" : 17]>
step (float[2] x, float[2] past0) => (float[2] y0, float[2] present0)
{
  present0 = Add(x, past0)
  y0 = Identity(present0)
}"""


def write_step(spec, path, exporter):
    """In an exporter's place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx.parser.parse_model(STEP), path)
    return True


class Cases(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def cases(self, **options):
        with unittest.mock.patch.object(torch_modules, "export", write_step):
            return list(suites.cases("transformers", Options(self.folder, **options)))

    def test_every_network_at_its_lengths_in_both_batches(self):
        names = [case.name for case in self.cases(on_gpu=True)]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual({name.removesuffix("_b1") for name in names if name.endswith("_b1")}, {
            "gpt2_128", "gpt2_512", "gpt2_1024", "llama_512", "llama_2048", "bert_base_128", "bert_base_384",
            "bert_base_512", "t5_encoder_512", "t5_decoder_512", "whisper_encoder", "clip_77", "gpt2_decode_1024",
            "llama_decode_1024", "vit_b_16", "swin_t"})
        self.assertEqual(sum(name.endswith("_b8") for name in names), 16)
        self.assertEqual(len(names), 32)

    def test_two_networks_on_cpus(self):
        self.assertEqual([case.name for case in self.cases()], ["gpt2_512_b1", "bert_base_512_b1"])

    def test_files_differ_where_models_do(self):
        paths = [case.model for batch in (1, 8) for exporter in torch_modules.OPSETS for small in (False, True)
                 for case in self.cases(on_gpu=True, batch=batch, exporter=exporter, small=small, only=("gpt2_512",))]
        self.assertEqual((len(paths), len(set(paths))), (8, 8))

    def test_models_of_many_gigabytes_go_when_their_row_is_done(self):
        for keep, wanted in ((False, 0), (True, 6)):
            folder = self.folder / "seed0"
            folder.mkdir(exist_ok=True)
            (folder / "gpt2_128_decoys.onnx").touch()
            for case in self.cases(on_gpu=True, only=("gpt2_128", "llama_512", "swin"), keep_models=keep):
                self.assertEqual(case.model.exists(), keep)  # all rows are done
            self.assertEqual(len(list(folder.glob("*.onnx"))) - 1, wanted)

    def test_gpus_run_the_module_and_states_are_kept(self):
        [case] = self.cases(on_gpu=True, batch=1, only=("llama_decode",))
        self.assertTrue(case.own_module)
        self.assertEqual(case.compile_flags, ("--state=past0=present0",))
        self.assertEqual(case.torch, {"network": "llama_decode", "tokens": 1024, "small": False, "seed": 0, "batch": 1})

    def test_outputs_of_states_are_named_as_theirs(self):
        self.assertEqual(torch_modules.output_names(["ids", "position", "past0", "past1"], 3),
                         ["y0", "present0", "present1"])
        self.assertEqual(torch_modules.output_names(["ids"], 2), ["y0", "y1"])

    def test_what_cannot_be_exported_is_said_and_left_out(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            spec = {"network": "nosuch", "tokens": 1, "small": True, "seed": 0, "batch": 1}
            path = self.folder / "nosuch.onnx"
            self.assertFalse(torch_modules.export(spec, path, "torchscript"))
        self.assertRegex(said.getvalue(), "nosuch: not run: torchscript wrote no model: .+")
        self.assertFalse(path.exists())

    @unittest.skipUnless(COMMANDS, "not run: no tilewright command")
    def test_artefacts_begin_with_the_feeds_of_their_states(self):
        tools, path = artefacts.find_tools(COMMANDS[0]), self.folder / "step.onnx"
        write_step(None, path, None)
        artefact, _ = artefacts.compile_model(tools, path, ["--no-measure", *transformers.states(path)])
        model = tilewright_runtime.Model(str(tools.library), artefact, 1)
        model.bind({"x": np.array([1, 2], np.float32), "past0": np.array([10, 20], np.float32)})
        for wanted in ([11, 22], [12, 24]):
            model.run()
            self.assertEqual(list(model.outputs), ["y0"])
            np.testing.assert_array_equal(model.outputs["y0"], wanted)


@unittest.skipUnless(HAS_MODULES, "not run: no torch or no transformers")
class Modules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import torch
        from suites import transformer_modules
        cls.torch, cls.modules = torch, transformer_modules
        previous = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        cls.addClassCleanup(torch.set_grad_enabled, previous)

    @staticmethod
    def spec(network):
        return {"network": network, "tokens": 16, "small": True, "seed": 0, "batch": 2}

    def computed(self, network, **changes):
        spec = self.spec(network)
        module = torch_modules.build(spec)
        feeds = dict(self.modules.feeds(spec, module), **changes)
        return feeds, [r.numpy() for r in module(*(self.torch.from_numpy(a.copy()) for a in feeds.values()))]

    def test_the_same_seed_gives_the_same_module_and_inputs_matter(self):
        self.assertEqual(set(self.modules.NETWORKS), set(transformers.TOKENS))
        for network in self.modules.NETWORKS:
            feeds, first = self.computed(network)
            _, again = self.computed(network)
            for a, b in zip(first, again, strict=True):
                np.testing.assert_array_equal(a, b)
            for name, array in feeds.items():
                if name not in ("position", "kinds"):
                    _, other = self.computed(network, **{name: np.roll(array, 1, 0)})
                    moved = max(float(np.abs(a - b).max()) for a, b in zip(first, other))
                    self.assertGreater(moved, 1e-4, (network, name))

    def test_rotary_frequencies_stay_wide(self):
        module = torch_modules.build(self.spec("llama")).to(dtype=self.torch.float16)
        self.assertEqual(module.module.rotary_emb.inv_freq.dtype, self.torch.float32)
        self.assertEqual({p.dtype for p in module.parameters()}, {self.torch.float16})

    def test_attention_is_that_of_the_package(self):
        for network in self.modules.NETWORKS:
            _, ours = self.computed(network)
            with unittest.mock.patch.object(self.modules, "ATTENTION", "sdpa"):
                _, theirs = self.computed(network)
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=network)

    def test_a_step_gives_what_the_last_token_of_the_whole_row_has(self):
        """The keys of the tokens before it come from the same row without it."""
        whole = torch_modules.build(self.spec("gpt2"))
        words = self.torch.from_numpy(self.modules.feeds(self.spec("gpt2"), whole)["ids"])
        kept = self.modules.DynamicCache()
        whole.module(input_ids=words[:, :-1], past_key_values=kept, use_cache=True)
        states = []
        for layer in kept.layers:
            for part in (layer.keys, layer.values):
                states.append(self.torch.nn.functional.pad(part, (0, 0, 0, 1), value=7.0))
        step = torch_modules.build(self.spec("gpt2_decode"))
        [got] = step(words[:, -1:], self.torch.tensor([15]), *states)
        [want] = whole(words)
        np.testing.assert_allclose(got[:, 0], want[:, -1], rtol=1e-4, atol=1e-5)

    def test_exported_models_compute_the_same(self):
        for network, exporter in (("gpt2", "torchscript"), ("llama", "torchscript"), ("llama_decode", "torchscript"),
                                  ("clip", "torchscript"), ("t5_decoder", "torchscript"), ("gpt2_decode", "dynamo")):
            if exporter == "dynamo" and importlib.util.find_spec("onnxscript") is None:
                print("not run: dynamo's exporter without onnxscript", file=sys.stderr)
                continue
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
                path = pathlib.Path(folder) / "model.onnx"
                torch_modules.write(self.spec(network), path, exporter)
                model, feeds = onnx.load(path), dict(np.load(path.with_suffix(".npz")))
                self.assertEqual([v.name for v in model.graph.input], list(feeds))
                _, want = self.computed(network)
                got = ReferenceEvaluator(model).run(None, feeds)
                states = transformers.states(path)
            self.assertEqual(len(got), len(want) + len(states), network)
            self.assertEqual(len(states), 4 if "decode" in network.split("_") else 0)
            self.assertEqual({o.version for o in model.opset_import if o.domain == ""}, {torch_modules.OPSETS[exporter]})
            for a, b in zip(got, want):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=network)

    @unittest.skipUnless(COMMANDS, "not run: no tilewright command")
    def test_a_step_with_states_from_end_to_end(self):
        pool = self.enterContext(rounds.Pool())
        args = types.SimpleNamespace(pool=pool, tools=artefacts.find_tools(COMMANDS[0]), target="cpu", dtype="f16",
                                     compile_flags="--no-measure", engines=["tilewright", "eager", "xla"], rates=None,
                                     variants={}, protocol=rounds.Protocol(2, 0.0, 0.01, 1))
        with tempfile.TemporaryDirectory() as folder:
            options = Options(pathlib.Path(folder), small=True, on_gpu=True, batch=2, only=("gpt2_decode",))
            [case] = suites.cases("transformers", options)
            [row] = run.compare_on_gpu(case, args, device="cpu")
        self.assertEqual(set(row["engines"]), {"tilewright", "eager"}, row["failed"])
        self.assertEqual(set(row["failed"]), {"xla"})
        far = {name: engine["difference"] for name, engine in row["engines"].items()}
        self.assertGreater(far["eager"], 0)
        self.assertLess(far["tilewright"], max(2 * far["eager"], gpu_engines.MODULE_TOLERANCE["f16"].low))


if __name__ == "__main__":
    unittest.main()
