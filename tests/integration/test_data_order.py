"""Which problems each RL step draws, and what is sampled, with and without a stop in between."""

import torch

from callbacks.rollout_recorder import recorded_steps
from gtpo_lit.recorded import read_rollouts
from gtpo_lit.run_folder import RunFolder

EIGHT = (
    "--data.problems.init_args.size=8",
    "--data.validation={}",
    "--data.group_size=2",
    "--data.micro_batches=1",
    "--trainer.accumulate_grad_batches=1",
    "--data.sampling.max_tokens=4",
    "--trainer.callbacks=callbacks.RolloutRecorder",
    "--trainer.callbacks.every_n_steps=1",
    "--trainer.callbacks+=gtpo_lit.run_checkpoint.RunCheckpoint",
    "--trainer.callbacks.every_n_epochs=1",
)


def recorded(runs, number):
    """What a run drew and sampled in each RL step that it made itself."""
    folder = RunFolder(path=runs.version(number))
    return {step: read_rollouts(path) for path, step in recorded_steps(folder)}


def problems(steps):
    """The problems of each step, in the order in which they were drawn."""
    return {
        number: list(dict.fromkeys(row.problem for row in step.sequences))
        for number, step in steps.items()
    }


def sampled(steps):
    return {number: step.rollouts.input_ids.tolist() for number, step in steps.items()}


def resumed(runs, step, *options):
    checkpoint = runs.version(0) / "checkpoints" / f"step={step:04d}.ckpt"
    runs(*options, f"--ckpt_path={checkpoint}")
    return recorded(runs, 1)


def test_a_resume_within_a_pass_goes_on_behind_what_was_drawn(runs):
    """Report E1: of 8 problems, one a step, a resume from step 3 draws those at 3 to 7."""
    options = (*EIGHT, "--data.problems_per_step=1", "--trainer.max_epochs=8")
    runs(*options)
    whole = problems(recorded(runs, 0))
    order = [whole[step] for step in range(1, 9)]
    assert len({name for (name,) in order}) == 8
    rest = problems(resumed(runs, 3, *options))
    assert list(rest) == [4, 5, 6, 7, 8]
    assert list(rest.values()) == order[3:]
    for number in (0, 1):
        last = runs.version(number) / "checkpoints" / "step=0008.ckpt"
        assert torch.load(last, weights_only=True)["global_step"] == 8


def test_a_resume_between_two_passes_draws_and_samples_as_without(runs):
    """Report E5: the second pass has an order of its own, which a resume does not begin anew."""
    options = (*EIGHT, "--data.problems_per_step=4", "--trainer.max_epochs=4")
    runs(*options)
    steps = recorded(runs, 0)
    whole = problems(steps)
    first, second = whole[1] + whole[2], whole[3] + whole[4]
    assert sorted(first) == sorted(second)
    assert len(set(first)) == 8
    assert first != second
    rest = resumed(runs, 2, *options)
    assert problems(rest) == {step: whole[step] for step in (3, 4)}
    assert sampled(rest) == {step: sampled(steps)[step] for step in (3, 4)}
