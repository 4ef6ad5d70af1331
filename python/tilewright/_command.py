"""The command `tilewright` of this package."""
from __future__ import annotations

import os
import sys


def main() -> None:
    """Becomes the native command, with the same arguments."""
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tilewright")
    os.execv(command, [command, *sys.argv[1:]])
