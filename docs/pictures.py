"""The output folder of the scripts in this folder: a temporary one, except with --update."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

TRACKED = Path(__file__).parent / "images"


def folder(about: str | None) -> Path:
    """The folder that a script's command line names, which is created if necessary."""
    parser = argparse.ArgumentParser(description=about)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, help="folder to draw to (default: a temporary one)")
    where.add_argument(
        "--update", action="store_true", help=f"replace the pictures of the pages, in {TRACKED}"
    )
    arguments = parser.parse_args()
    chosen = TRACKED if arguments.update else arguments.out
    out = chosen or Path(tempfile.mkdtemp(prefix="gridsample-"))
    out.mkdir(parents=True, exist_ok=True)
    print(f"pictures are drawn to {out}")
    return out


def save(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure reproducibly, without the version of Matplotlib."""
    figure.savefig(path, metadata={"Software": None}, **options)
