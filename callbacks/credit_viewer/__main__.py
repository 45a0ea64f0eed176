"""``python -m callbacks.credit_viewer FILE [--output PAGE]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gtpo_lit.credit_page import write_credit_page
from gtpo_lit.recorded import read_rollouts


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the page of one recorded step; 2 for a file that cannot be read or written."""
    parser = argparse.ArgumentParser(
        prog="python -m callbacks.credit_viewer",
        description="Turn recorded rollouts into a page that any browser shows without network.",
        allow_abbrev=False,
    )
    parser.add_argument("file", type=Path, help="a step_NNNNNN.parquet of RolloutRecorder")
    parser.add_argument(
        "--output", type=Path, help="the page to write; FILE with .html if not given"
    )
    options = parser.parse_args(arguments)
    output: Path = options.output or options.file.with_suffix(".html")
    try:
        if output.exists() and output.samefile(options.file):
            raise ValueError(f"--output {output} is the file of recorded rollouts itself")
        write_credit_page(read_rollouts(options.file), output)
    except (OSError, ValueError) as error:
        print(f"credit_viewer: {error}", file=sys.stderr)
        return 2
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
