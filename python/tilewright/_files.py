"""Files that are written as a whole or not at all."""
from __future__ import annotations

import os
import tempfile


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file that is there as a whole, or as before."""
    folder, name = os.path.split(os.fspath(path))
    handle, partial = tempfile.mkstemp(prefix=f".{name}.", suffix=".partial", dir=folder or ".")
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)  # as open() would have made it
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
