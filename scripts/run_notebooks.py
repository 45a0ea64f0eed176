"""Run all notebooks on short fresh runs: two algorithms, two seeds each.

    python scripts/run_notebooks.py --output runs/notebooks

Trains the embedded policy for twelve RL steps four times (what is there already is kept), runs each
notebook in `notebooks/`, and writes it with its output. The notebooks themselves stay as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
METHODS = {"GTPO": "gtpo", "DAPO": "dapo"}
SEEDS = (0, 1)


def main() -> int:
    """Train, run, and say how long each part took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("runs/notebooks"))
    output = parser.parse_args().output.absolute()
    started = time.monotonic()
    runs = {
        name: [train(output, method, seed) for seed in SEEDS] for name, method in METHODS.items()
    }
    print(f"four short runs: {time.monotonic() - started:.0f} s", flush=True)
    newest = runs["GTPO"][0]
    os.environ |= {
        "GTPO_LIT_RUN": str(newest),
        "GTPO_LIT_ROLLOUTS": str(newest / "rollouts" / "step_000012.parquet"),
        "GTPO_LIT_RUNS": json.dumps({name: list(map(str, paths)) for name, paths in runs.items()}),
    }
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        begun = time.monotonic()
        execute(path, output / path.name)
        print(f"{path.name}: {time.monotonic() - begun:.0f} s", flush=True)
    print(f"all: {time.monotonic() - started:.0f} s; with output in {output}")
    return 0


def train(output: Path, method: str, seed: int) -> Path:
    """A finished run's folder."""
    folder = output / "runs" / f"{method}_{seed}" / "version_0"
    if (folder / "summary.json").is_file():
        return folder
    command = [sys.executable, "-m", "gtpo_lit", "fit"]
    for config in ("quickstart", f"algorithm/{method}", "callbacks/recorded"):
        command += ["--config", f"configs/{config}.yaml"]
    command += [
        "--data.problems_per_step=8",
        "--data.validation.chains.init_args.size=32",
        f"--seed_everything={seed}",
        f"--run.root={output / 'runs'}",
        f"--run.name={method}_{seed}",
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


def execute(path: Path, target: Path) -> None:
    """Run a notebook from top to bottom; an error in a cell ends the script with its traceback.

    Raises:
        RuntimeError: no cell shows a picture.
    """
    import nbformat
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    # Through files that only this user can open, not through ports that all of the machine can.
    manager = AsyncKernelManager(kernel_name="python3", transport="ipc")
    where = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, km=manager, timeout=600, resources=where).execute()
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    if not any("image/png" in output.get("data", {}) for output in outputs):
        raise RuntimeError(f"{path.name} shows no picture")


if __name__ == "__main__":
    sys.exit(main())
