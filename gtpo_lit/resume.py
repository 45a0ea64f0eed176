"""Where a run goes on from, and whether there is anything left to do."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch.utilities import rank_zero_only

from gtpo_lit.run_folder import RunFolder, checkpoint_step, last_checkpoint
from gtpo_lit.torn_checkpoint import why_torn


def find_checkpoint(path: str | None, root: str, name: str, *, command: str) -> str | None:
    """The checkpoint that `--ckpt_path` means; None if there is none to go on from.

    Args:
        path: a path or URL; "last" is the newest whole one of the run; None means none.
        root: folder of all runs.
        name: of the run.
        command: what it is for, to be named.

    Raises:
        ValueError: there is no such checkpoint, or it is torn; "last" without any is an error but
            for `fit`.
    """
    if path == "last":
        found = last_checkpoint(Path(root), name)
        if found is None and command != "fit":
            raise ValueError(
                f"ckpt_path = 'last': no checkpoint under {root}/{name} (run.root and run.name say "
                f"where; without ckpt_path {command} takes the policy as it is)"
            )
        if found is None:
            _say(f"no checkpoint under {root}/{name} yet: {command} starts from the initial policy")
        return None if found is None else str(found)
    if path is None or "://" in path:
        return path
    if not Path(path).exists():
        raise ValueError(
            f"ckpt_path = {path!r}: no such checkpoint (give a path, or 'last' for the newest of "
            f"{root}/{name})"
        )
    reason = why_torn(path)
    if reason is not None:
        raise ValueError(
            f"ckpt_path = {path!r} {reason} (give another one, or 'last' for the newest whole one "
            f"of {root}/{name})"
        )
    return path


def say_if_finished(path: str, max_epochs: int) -> None:
    """Say so if a checkpoint holds all RL steps that are asked for.

    A run that was stopped between its last checkpoint and its summary goes on to write that; one
    that is done altogether ends here.

    Raises:
        SystemExit: with code 0, if nothing is left to do.
    """
    if "://" in path:
        return
    steps = checkpoint_step(path)
    if steps < max_epochs:
        return
    run = RunFolder(path=Path(path).resolve().parent.parent)
    unsaid = run.metrics.is_file() and not run.summary.is_file()
    what = "only its summary is written" if unsaid else "nothing is trained"
    _say(
        f"already finished: trainer.max_epochs = {max_epochs} and checkpoint {path} holds {steps} "
        f"RL step{'s' * (steps != 1)}; {what} (raise trainer.max_epochs to train on)"
    )
    if not unsaid:
        raise SystemExit(0)


@rank_zero_only
def _say(text: str) -> None:
    print(f"gtpo-lit: {text}", flush=True)
