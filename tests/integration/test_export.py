"""What `callbacks.ExportHF` leaves, as a stranger loads it."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

EXPORT = (
    "--trainer.callbacks+=callbacks.ExportHF",
    "--trainer.callbacks.every=1",
    "--trainer.callbacks+=callbacks.Throughput",
)


def test_the_export_gives_the_logits_of_the_checkpoint(runs):
    runs(*EXPORT)
    folder = runs.version() / "export"
    assert sorted(entry.name for entry in folder.iterdir()) == ["step=0001", "step=0002"]
    saved = torch.load(runs.version() / "checkpoints" / "step=0002.ckpt", weights_only=True)
    weights = {
        name.removeprefix("policy.model."): value for name, value in saved["state_dict"].items()
    }
    loaded = AutoModelForCausalLM.from_pretrained(folder / "step=0002")
    same = AutoModelForCausalLM.from_pretrained(folder / "step=0001")
    tokenizer = AutoTokenizer.from_pretrained(folder / "step=0002")
    ids = tokenizer("3+4+5+6+7=", return_tensors="pt").input_ids
    assert tokenizer.decode(ids[0], skip_special_tokens=True).replace(" ", "") == "3+4+5+6+7="
    with torch.no_grad():
        logits, before = loaded(ids).logits, same(ids).logits
        same.load_state_dict(weights)
        assert torch.equal(same(ids).logits, logits)
    assert not torch.equal(before, logits)
    timing = (runs.version() / "timing.csv").read_text().splitlines()[0].split(",")
    assert {"time/sampling_tokens_per_second", "memory/cpu_peak_bytes"} <= set(timing)
    assert json.loads((folder / "step=0002" / "config.json").read_text())["architectures"]


@pytest.mark.slow
def test_two_ranks_write_one_export(runs):
    done = runs.apart(*EXPORT, "--config=configs/strategy/ddp.yaml", "--data.micro_batches=2")
    assert done.returncode == 0, done.stderr[-2000:]
    folder = runs.version() / "export"
    assert sorted(entry.name for entry in folder.iterdir()) == ["step=0001", "step=0002"]
    assert AutoModelForCausalLM.from_pretrained(folder / "step=0002").num_parameters() > 1e5
