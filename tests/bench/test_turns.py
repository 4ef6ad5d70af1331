"""Benches that share a device time in turns."""
import multiprocessing
import pathlib
import tempfile
import time
import unittest

from harness.turns import Turn


def hold(path, began, ended):
    with Turn(path):
        began.set()
        time.sleep(0.3)
        ended.value = time.monotonic()


class Turns(unittest.TestCase):
    def test_one_at_a_time(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "turn"
            began, ended = multiprocessing.Event(), multiprocessing.Value("d", 0.0)
            other = multiprocessing.Process(target=hold, args=(path, began, ended))
            other.start()
            self.assertTrue(began.wait(30))
            turn = Turn(path)
            with turn:
                self.assertGreaterEqual(time.monotonic(), ended.value)
                self.assertGreater(ended.value, 0)
            with turn:  # again and again
                pass
            other.join()


if __name__ == "__main__":
    unittest.main()
