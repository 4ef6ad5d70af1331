"""Several benches at once on one device: what is timed is timed by one of them at a time."""
import fcntl


class Turn:
    """A context that one process at a time is in, of all that name the same file; the file is made, and stays."""

    def __init__(self, path):
        self._file = open(path, "a")

    def __enter__(self):
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *error):
        fcntl.flock(self._file, fcntl.LOCK_UN)
