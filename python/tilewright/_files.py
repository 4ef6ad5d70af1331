"""Files that are written as a whole or not at all."""
from __future__ import annotations

import os


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file that is there as a whole, or as before."""
    partial = f"{os.fspath(path)}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
