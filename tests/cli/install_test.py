#!/usr/bin/env python3
"""Installs the build to a folder of its own, builds both examples against it with find_package, and runs them.

  install_test.py --build DIR --source DIR --cmake PATH [--flags "-fsanitize=.."]
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import onnx_bytes

M, K, N = 13, 7, 21  # off every tile


def call(*words, ok=(0,)):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=600)
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
        compile_cpp = build_example(args, prefix, "compile_cpp", folder)

        model, artefact = folder / "dense.onnx", folder / "dense.tw"
        model.write_bytes(onnx_bytes.dense(M, K, N))
        total = sum(onnx_bytes.dense_reference([i % 7 for i in range(M * K)], M, K, N))  # integers: exact
        line = f"y: sum {total:.9g}\n"
        call(prefix / "bin" / "tilewright", "compile", model, "-o", artefact)
        expect(call(run_c, artefact) == line, f"run_c should print {line}")
        text = call(compile_cpp, model)
        expect(text.endswith(line) and "1 groups" in text, f"compile_cpp should print {line}, not {text}")

        artefact.write_bytes(artefact.read_bytes()[:-1])
        expect("truncated" in call(run_c, artefact, ok=(5,)), "run_c should refuse a truncated artefact")
        call(compile_cpp, folder / "missing.onnx", ok=(3,))
        model.write_bytes(onnx_bytes.dense(M, K, N)[:-9])
        call(compile_cpp, model, ok=(3,))
    return 0


if __name__ == "__main__":
    os.environ.pop("DESTDIR", None)
    sys.exit(main())
