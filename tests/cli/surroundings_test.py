"""The command where its surroundings are bad: streams that cannot be written, locks that nobody frees, links that lead
elsewhere, too little memory or time, files of commands that were killed.

  TILEWRIGHT=PATH python3 -m unittest surroundings_test.Streams
"""
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import time

import onnx_bytes as ob
from command_test import EXHAUSTED, MODEL, TILEWRIGHT, USAGE, Case


class Streams(Case):
    def code(self, shell):
        return subprocess.run(["bash", "-c", shell], cwd=self.folder, capture_output=True, timeout=300, env={**os.environ, "TW": TILEWRIGHT}).returncode

    def test_messages_that_nobody_can_read_change_no_exit_code(self):
        self.write("noise.onnx", b"noise")
        for stderr in ("2>/dev/full", "2>&-"):
            with self.subTest(stderr=stderr):
                self.assertEqual(self.code(f'"$TW" compile noise.onnx {stderr}'), MODEL)
                self.assertEqual(self.code(f'"$TW" frob {stderr}'), USAGE)
                self.assertEqual(self.code(f'"$TW" compile dense.onnx -o dense.tw --json {stderr}'), 0)
                self.assertEqual(self.code(f'"$TW" verify dense.tw {stderr}'), 0)

    def test_no_file_gets_the_number_of_a_closed_stream(self):
        """A message would be written into it."""
        for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
            with self.subTest(closed=closed):
                code = self.code(f'"$TW" compile dense.onnx -o closed.tw -v {closed}')
                self.assertEqual(code, EXHAUSTED if "1>" in closed else 0)
                self.succeeds("verify", "closed.tw")

    def test_whoever_closes_the_pipe_ends_the_output_not_the_work(self):
        for closed in ("stdout", "stderr"):
            read, write = os.pipe()
            os.close(read)
            with self.subTest(closed=closed), open(write, "wb") as pipe:
                streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, closed: pipe}
                done = subprocess.run([TILEWRIGHT, "compile", "dense.onnx", "-o", f"{closed}.tw", "--json"], cwd=self.folder, timeout=300, **streams)
                self.assertEqual(done.returncode, -signal.SIGPIPE if closed == "stdout" else 0)
                self.succeeds("verify", f"{closed}.tw")

    def test_help_that_is_lost_is_an_error(self):
        self.assertEqual(self.code('"$TW" compile --help > /dev/full'), EXHAUSTED)


class Locks(Case):
    def held(self, path):
        file = open(path, "w")
        self.addCleanup(file.close)
        fcntl.flock(file, fcntl.LOCK_EX)

    def test_the_lock_of_a_database_is_not_waited_for_for_ever(self):
        database = str(self.folder / "tuning.db")
        self.succeeds("db", "status", "--db", database)
        self.held(database + ".lock")
        start = time.monotonic()
        done = self.succeeds("db", "status", "--db", database)
        self.assertLess(time.monotonic() - start, 10)
        self.assertIn(f"waiting up to 3 s for '{database}.lock'", done.stderr)
        self.assertIn("opened without its lock", done.stderr)
        self.assertIn("tasks", done.stdout)

    def test_the_lock_of_machine_parameters_is_waited_for_once(self):
        folder = self.folder / "cache"
        folder.mkdir()
        self.held(folder / "machine.lock")
        start = time.monotonic()
        done = self.succeeds("compile", "dense.onnx", env={**os.environ, "TILEWRIGHT_CACHE_DIR": str(folder)})
        self.assertLess(time.monotonic() - start, 19)
        self.assertEqual(done.stderr.count("waiting up to"), 1, done.stderr)
        self.assertEqual(done.stderr.count("defaults"), 1, done.stderr)
        self.assertIn("machine.lock", done.stderr)


class Links(Case):
    """As in the cache of Hugging Face: snapshots of links to files that are kept by their content."""

    def setUp(self):
        super().setUp()
        self.write("hub/blobs/0123", bytes(24))
        w = ob.external_tensor("w", [3, 2], "w.bin", 0, None)
        x, y = ob.value_info("x", [4, 3]), ob.value_info("y", [4, 2])
        self.write("hub/snapshots/1/m.onnx", ob.model([ob.node("MatMul", ["x", "w"], ["y"], "M")], [x], [y], [w]))
        self.model = "hub/snapshots/1/m.onnx"
        self.link = self.folder / "hub/snapshots/1/w.bin"
        self.link.symlink_to("../../blobs/0123")

    def test_links_lead_only_where_they_may(self):
        self.fails(MODEL, ["compile", self.model], "w.bin", "--allow-links")
        self.fails(MODEL, ["compile", self.model, "--allow-links", "hub/snapshots"], "w.bin", "--allow-links")
        for words in (["compile", "-o", "m.tw"], ["verify"], ["run", "--random", "seed=0"]):
            self.succeeds(words[0], self.model, *words[1:], "--allow-links", "hub")
        self.fails(USAGE, ["verify", "m.tw", "--allow-links", "hub"], "--allow-links")
        self.link.unlink()
        self.link.symlink_to("/etc/passwd")
        self.fails(MODEL, ["compile", self.model, "--allow-links", "hub"], "w.bin", "/etc/passwd")

    def test_hard_links_only_in_folders_that_are_named(self):
        self.link.unlink()
        os.link(self.folder / "hub/blobs/0123", self.link)
        self.fails(MODEL, ["compile", self.model], "w.bin", "2 names")
        self.succeeds("compile", self.model, "-o", "m.tw", "--allow-links", "hub/snapshots/1")

    def test_the_cache_knows_where_links_lead_now(self):
        environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(self.folder / "cache")}
        words = ["compile", self.model, "-o", "m.tw", "--target", "cpu:x86-64-v3", "--json"]

        def cached(*more):
            return json.loads(self.succeeds(*words, *more, env=environment).stdout)["cached"]

        self.write("hub/blobs/4567", b"\0\0\x80\x3f" * 6)
        past = time.time() - 60
        for blob in ("0123", "4567"):
            os.utime(self.folder / "hub/blobs" / blob, (past, past))
        os.utime(self.folder / self.model, (past, past))
        self.assertEqual([cached("--allow-links", "hub") for _ in range(2)], [False, True])
        self.assertEqual(self.run_command(*words, env=environment).returncode, MODEL, "another answer to what may be read")
        self.link.unlink()
        self.link.symlink_to("../../blobs/4567")
        self.assertFalse(cached("--allow-links", "hub"))


class Limits(Case):
    def test_memory_and_time(self):
        self.fails(EXHAUSTED, ["compile", "dense.onnx", "--max-memory", "1M"], "of memory, 1.05 MB is allowed", "--max-memory")
        self.fails(EXHAUSTED, ["compile", "dense.onnx", "--max-time", "0.001ms"], "--max-time")
        self.succeeds("compile", "dense.onnx", "-o", "dense.tw", "--max-memory", "4G", "--max-time", "10m")
        self.fails(USAGE, ["compile", "dense.onnx", "--max-memory", "lots"], "--max-memory", "lots")
        self.fails(USAGE, ["compile", "dense.onnx", "--max-time", "soon"], "--max-time", "soon")

    def test_a_declared_size_is_set_against_memory(self):
        w = ob.external_tensor("w", [1 << 18, 1 << 17], "w.bin", 0, None)
        x, y = ob.value_info("x", [4, 1 << 18]), ob.value_info("y", [4, 1 << 17])
        self.write("m.onnx", ob.model([ob.node("MatMul", ["x", "w"], ["y"], "M")], [x], [y], [w]))
        with open(self.folder / "w.bin", "wb") as file:
            file.truncate(1 << 37)
        self.fails(EXHAUSTED, ["compile", "m.onnx"], "w.bin", "needs 137 GB of memory", "left of")


class Groups(Case):
    """A control group that we make, where the system lets us."""

    def limited(self, size, *words):
        places = {"/sys/fs/cgroup/memory": ("memory.limit_in_bytes", "tasks"), "/sys/fs/cgroup": ("memory.max", "cgroup.procs")}
        for place, (limit, members) in places.items():
            group = pathlib.Path(place) / f"tilewright-test-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            try:
                (group / limit).write_text(str(size))
                return subprocess.run(["sh", "-c", f'echo $$ > {group}/{members} && exec "$@"', "sh", TILEWRIGHT, *words], cwd=self.folder,
                                      capture_output=True, text=True, timeout=300)
            except OSError:
                continue
            finally:
                group.rmdir()
        self.skipTest("no control group with a limit of memory can be made here")

    def test_too_little_memory_is_said_before_the_system_ends_us(self):
        """A constant of 256 MB in groups that have room for it once, and not even that."""
        w = ob.external_tensor("w", [1 << 10, 1 << 16], "w.bin", 0, None)
        x, y = ob.value_info("x", [4, 1 << 10]), ob.value_info("y", [4, 1 << 16])
        self.write("m.onnx", ob.model([ob.node("MatMul", ["x", "w"], ["y"], "M")], [x], [y], [w]))
        with open(self.folder / "w.bin", "wb") as file:
            file.truncate(1 << 28)
        for size in (200 << 20, 400 << 20):
            done = self.limited(size, "compile", "m.onnx", "-o", "m.tw", "--target", "cpu:x86-64-v3")
            self.assertEqual(done.returncode, EXHAUSTED, done.stderr)
            self.assertIn("control group", done.stderr)
            self.assertFalse((self.folder / "m.tw").exists())

    def test_an_arena_that_has_no_room(self):
        nodes = [ob.node("Relu", ["x"], ["a"], "A"), ob.node("Transpose", ["a"], ["b"], "B"), ob.node("MatMul", ["b", "x"], ["y"], "C")]
        self.write("m.onnx", ob.model(nodes, [ob.value_info("x", [1 << 20, 64])], [ob.value_info("y", [64, 64])]))
        self.succeeds("compile", "m.onnx", "-o", "m.tw", "--target", "cpu:x86-64-v3", "--no-optional-passes")
        done = self.limited(300 << 20, "run", "m.tw", "--random", "seed=0")
        self.assertEqual(done.returncode, EXHAUSTED, done.stderr)
        self.assertIn("control group", done.stderr)


class Leftovers(Case):
    def test_files_of_killed_commands_go(self):
        dead = subprocess.Popen(["true"])
        dead.wait()
        cache = self.folder / "cache"
        past = time.time() - 3600
        for folder in (self.folder, cache, cache / "artefacts"):
            folder.mkdir(exist_ok=True)
            for name in (f".x.tw.tmp.{dead.pid}.0", f".x.tw.tmp.{os.getpid()}.0"):
                (folder / name).write_bytes(b"half")
                os.utime(folder / name, (past, past))

        def left(folder):
            return sorted(p.name for p in folder.glob(".x.tw.tmp.*"))

        mine = [f".x.tw.tmp.{os.getpid()}.0"]
        self.succeeds("compile", "dense.onnx", "-o", "a.tw")
        self.assertEqual(left(self.folder), mine)
        environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(cache)}
        self.succeeds("cache", "prune", "--max-size", "1G", env=environment)
        for folder in (cache, cache / "artefacts"):
            self.assertEqual(left(folder), mine)
