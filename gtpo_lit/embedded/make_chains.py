"""Makes the embedded policy `chains`: a tiny Qwen2 that knows two strategies.

Run it as ``python -m gtpo_lit.embedded.make_chains --output FOLDER``. The same seed on the same
machine and torch gives the same weights.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)

from gtpo_lit.embedded.card import card
from gtpo_lit.embedded.demonstrations import Mixture
from gtpo_lit.embedded.measure import measure
from gtpo_lit.tasks import ChainSource

CHARACTERS = "0123456789+=;"
TRAIN_PROBLEMS = 16_384


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; `<pad>`, `<eos>` and `<unk>` beside. Other characters are dropped.

    `AutoTokenizer` loads the tokenizer of every folder with a Qwen2 as a `Qwen2Tokenizer` that it
    rebuilds from vocabulary and merges, whatever tokenizer.json holds beside them. This one
    therefore is of that class, with no merges, so that all loaders give the same token ids.
    """
    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2}
    vocabulary |= {character: index for index, character in enumerate(CHARACTERS, start=3)}
    return Qwen2Tokenizer(
        vocab=vocabulary,
        merges=[],
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        model_max_length=128,
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer: PreTrainedTokenizerFast, *, seed: int) -> Qwen2ForCausalLM:
    """About 205 thousand parameters; heads of 32, a size that vLLM's CPU attention takes."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=224,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=3,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model


def warm_up(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    *,
    mixture: Mixture,
    steps: int,
    batch: int,
    seed: int,
) -> None:
    """Supervised training on demonstrations for training problems, loss on responses only."""
    source = ChainSource(split="train", size=TRAIN_PROBLEMS)
    generator = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    start = time.perf_counter()
    for step in range(1, steps + 1):
        chosen = [generator.randrange(TRAIN_PROBLEMS) for _ in range(batch)]
        questions = [source.problem(index).question for index in chosen]
        responses = [mixture.response(question, generator) for question in questions]
        optimizer.zero_grad()
        loss = backward(model, tokenizer, questions, responses)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps:
            seconds = time.perf_counter() - start
            print(f"step {step}/{steps}  loss {loss:.4f}  {seconds:.0f} s", flush=True)


def backward(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    questions: list[str],
    responses: list[str],
) -> float:
    """Add the gradient of the mean cross entropy of all response tokens, end tokens included.

    Rows of one length share a forward pass, so that none is padded: most responses are short.
    """
    end = tokenizer.eos_token_id
    by_length: dict[tuple[int, int], list[list[int]]] = {}
    asked, written = tokenizer(questions)["input_ids"], tokenizer(responses)["input_ids"]
    for question, response in zip(asked, written, strict=True):
        lengths = (len(question), len(response) + 1)
        by_length.setdefault(lengths, []).append([*question, *response, end])
    tokens = sum(length * len(rows) for (_, length), rows in by_length.items())
    total = 0.0
    for (start, _), rows in by_length.items():
        ids = torch.tensor(rows)
        logits = model(input_ids=ids).logits[:, start - 1 : -1]
        targets = ids[:, start:]
        loss = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / tokens
        loss.backward()
        total += loss.item()
    return total


def main() -> None:
    """Make the policy, measure it on validation problems, and write its folder."""
    options = _options()
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, seed=options.seed)
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    mixture = Mixture(direct_share=options.direct_share, slip_rate=options.slip_rate)
    warm_up(
        model,
        tokenizer,
        mixture=mixture,
        steps=options.steps,
        batch=options.batch,
        seed=options.seed,
    )
    model.eval()
    source = ChainSource(split="validation", size=128)
    problems = [source.problem(index) for index in range(len(source))]
    found = measure(model, tokenizer, problems)
    print("\n".join(found.lines()), flush=True)
    model.save_pretrained(options.output)
    tokenizer.save_pretrained(options.output)
    readme = card(found, command=_command(options))
    (options.output / "README.md").write_text(readme, encoding="ascii")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--direct-share", type=float, default=0.7)
    parser.add_argument("--slip-rate", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"--output {options.output} exists already")
    return options


def _command(options: argparse.Namespace) -> str:
    """The command line with every option spelled out, and a folder of no particular machine."""
    settings = {**vars(options), "output": "chains"}
    words = [f"--{name.replace('_', '-')} {value}" for name, value in settings.items()]
    return " ".join(["python -m gtpo_lit.embedded.make_chains", *words])


if __name__ == "__main__":
    main()
