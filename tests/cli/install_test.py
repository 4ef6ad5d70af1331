#!/usr/bin/env python3
"""Installs the build to a folder of its own, builds the examples against it with find_package, and runs them.

  install_test.py --build DIR --source DIR --cmake PATH [--flags "-fsanitize=.."]
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import onnx_bytes

M, K, N = 13, 7, 21  # off every tile


def call(*words, ok=(0,), env=None):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=600, env=env)
    if done.returncode not in ok:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build_example(args, prefix, name, folder):
    flags = [f"-DCMAKE_C_FLAGS={args.flags}", f"-DCMAKE_CXX_FLAGS={args.flags}"] if args.flags else []
    build = folder / name
    call(args.cmake, "-S", args.source / "examples" / name, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
         "-DCMAKE_BUILD_TYPE=Release", *flags)
    call(args.cmake, "--build", build)
    return build / name


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def check_package(args, prefix, folder):
    """What find_package must refuse: another major version, a component that does not exist."""
    for number, arguments in enumerate(["Tilewright 2 REQUIRED CONFIG", "Tilewright 1 REQUIRED CONFIG COMPONENTS frob"]):
        project = folder / f"refused{number}"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(p NONE)\nfind_package({arguments})\n")
        text = call(args.cmake, "-S", project, "-B", project / "b", f"-DCMAKE_PREFIX_PATH={prefix}", ok=(1,))
        expect("Tilewright" in text, text)


def check_same_bytes(command, compile_c, model):
    """The library gives what the command gives: without measuring, and with what the command has measured."""
    by_command, by_library = model.with_name("command.tw"), model.with_name("library.tw")
    kept = {"TILEWRIGHT_CACHE_DIR": str(model.with_name("machine")), "TILEWRIGHT_DB": str(model.with_name("tuning.db"))}
    environment = {name: value for name, value in os.environ.items() if name != "TILEWRIGHT_NO_MEASURE"} | kept

    def compile_both(option):
        text = call(command, "compile", model, "-o", by_command, "--json", "--no-cache", f"--{option}", env=environment)
        by_command_told = json.JSONDecoder().raw_decode(text[text.index("{"):])[0]
        lines = call(compile_c, model, by_library, "no-cache=true", option, env=environment).splitlines()
        by_library_told = json.loads(next(line for line in lines if line.startswith("{")))
        expect(by_library_told["warnings"] == [], by_library_told["warnings"])
        return by_command_told["profiling"]["candidates"], by_library_told["profiling"]["candidates"]

    expect(compile_both("no-measure") == (0, 0), "--no-measure measures nothing")
    expect(by_command.read_bytes() == by_library.read_bytes(), "equal bytes without measuring")
    measured, again = compile_both("measure-all")
    expect(measured > 0 and again == 0, f"the command measured {measured} candidates, the library {again} of the same")
    expect(compile_both("measure-all") == (0, 0), "all is known")
    expect(by_command.read_bytes() == by_library.read_bytes(), "equal bytes with what was measured")
    os.remove(environment["TILEWRIGHT_DB"])
    told = call(compile_c, model, by_library, "measure-all", env=environment)
    expect('"candidates":0' not in told and '"cached":false' in told, f"the library measures: {told}")
    told = call(command, "compile", model, "-o", by_command, "--json", "--measure-all", env=environment)
    expect('"cached": true' in told, f"the command has the library's artefact: {told}")
    expect(by_command.read_bytes() == by_library.read_bytes(), "equal bytes from the cache")


def check_training(command, train_cpp, model):
    """A training from C++: the loss falls, and twice 20 steps are 40."""
    artefact = model.with_name("dense.train.tw")
    call(command, "train", model, "--loss", "mse", "--optimizer", "adam", "-o", artefact)

    def losses(name, steps):
        words = call(train_cpp, artefact, model.with_name(name), steps).split()
        return words[1], words[3]
    begin, whole = losses("whole.safetensors", 40)
    _, middle = losses("parts.safetensors", 20)
    again, end = losses("parts.safetensors", 20)
    expect(float(whole) < float(begin), f"the loss falls: {begin} -> {whole}")
    expect((again, end) == (middle, whole), f"steps in two parts: {middle}, {again}; {whole}, {end}")
    expect(model.with_name("parts.safetensors").read_bytes() == model.with_name("whole.safetensors").read_bytes(), "equal states")
    trained = model.with_name("trained.onnx")
    call(command, "export-weights", model, "--state", model.with_name("whole.safetensors"), "-o", trained)
    call(command, "verify", trained, "--no-cache")


def library_of(prefix):
    return next(prefix.rglob("libtilewright.so"))


def check_lonely_library(prefix, compile_c, model):
    """A library without its package says that it does not measure."""
    lonely = model.with_name("lonely")
    lonely.mkdir()
    shutil.copy(library_of(prefix), lonely / "libtilewright.so.1")
    environment = {name: value for name, value in os.environ.items() if name != "TILEWRIGHT_NO_MEASURE"}
    environment |= {"LD_LIBRARY_PATH": str(lonely), "TILEWRIGHT_CACHE_DIR": str(model.with_name("machine")), "TILEWRIGHT_DB": "/dev/null"}
    text = call(compile_c, model, model.with_name("lonely.tw"), env=environment)
    expect("nothing is measured: there is no program tilewright-worker" in text, f"a warning: {text}")
    text = call(compile_c, model, model.with_name("lonely.tw"), "no-measure", env=environment)
    expect('"warnings":[]' in text, f"no warning where nothing is to be measured: {text}")


def check_exports(prefix):
    library = library_of(prefix)
    names = [line.split()[-1] for line in call("nm", "-D", "--defined-only", library).splitlines()]
    expect(sorted(names) == ["tw_call_command", "tw_command_main", "tw_get_compiler_api"], f"exported: {names}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--flags", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        prefix = folder / "prefix"
        call(args.cmake, "--install", args.build, "--prefix", prefix)
        check_package(args, prefix, folder)
        run_c = build_example(args, prefix, "run_c", folder)
        compile_c = build_example(args, prefix, "compile_c", folder)
        compile_cpp = build_example(args, prefix, "compile_cpp", folder)
        train_cpp = build_example(args, prefix, "train_cpp", folder)

        model, artefact = folder / "dense.onnx", folder / "dense.tw"
        model.write_bytes(onnx_bytes.dense(M, K, N))
        total = sum(onnx_bytes.dense_reference([i % 7 for i in range(M * K)], M, K, N))  # integers: exact
        line = f"y: sum {total:.9g}\n"
        call(prefix / "bin" / "tilewright", "compile", model, "-o", artefact)
        expect(call(run_c, artefact) == line, f"run_c should print {line}")
        text = call(compile_cpp, model)
        expect(text.endswith(line) and "1 groups" in text, f"compile_cpp should print {line}, not {text}")

        check_same_bytes(prefix / "bin" / "tilewright", compile_c, model)
        check_training(prefix / "bin" / "tilewright", train_cpp, model)
        check_exports(prefix)
        check_lonely_library(prefix, compile_c, model)

        artefact.write_bytes(artefact.read_bytes()[:-1])
        expect("truncated" in call(run_c, artefact, ok=(5,)), "run_c should refuse a truncated artefact")
        call(compile_cpp, folder / "missing.onnx", ok=(2,))
        call(compile_c, folder / "missing.onnx", artefact, ok=(2,))
        expect("did you mean 'target'?" in call(compile_c, model, artefact, "taget=cpu", ok=(2,)), "a misspelt option")
        model.write_bytes(onnx_bytes.dense(M, K, N)[:-9])
        call(compile_cpp, model, ok=(3,))
    return 0


if __name__ == "__main__":
    os.environ.pop("DESTDIR", None)
    sys.exit(main())
