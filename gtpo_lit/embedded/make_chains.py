"""Makes the embedded policy `chains`: a tiny Qwen2 that knows two strategies.

Run it as ``python -m gtpo_lit.embedded.make_chains --output FOLDER``. Same seed, same machine:
same weights.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from gtpo_lit.embedded.demonstrations import Mixture
from gtpo_lit.tasks.chains import ChainSource

CHARACTERS = "0123456789+=;"
PROBLEMS = 16_384


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; `<pad>`, `<eos>` and `<unk>` beside."""
    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2}
    vocabulary |= {character: index for index, character in enumerate(CHARACTERS, start=3)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
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
    return Qwen2ForCausalLM(config)


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
    source = ChainSource(split="train", size=PROBLEMS)
    generator = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    start = time.perf_counter()
    for step in range(1, steps + 1):
        questions = [source.problem(generator.randrange(PROBLEMS)).question for _ in range(batch)]
        responses = [mixture.response(question, generator) for question in questions]
        loss = demonstration_loss(model, tokenizer, questions, responses)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps:
            seconds = time.perf_counter() - start
            print(f"step {step}/{steps}  loss {loss.item():.4f}  {seconds:.0f} s", flush=True)


def demonstration_loss(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    questions: list[str],
    responses: list[str],
) -> torch.Tensor:
    """Mean cross entropy of the response tokens and their end token."""
    end = tokenizer.eos_token_id
    rows = [
        (tokenizer(question)["input_ids"], [*tokenizer(response)["input_ids"], end])
        for question, response in zip(questions, responses, strict=True)
    ]
    width = max(len(question) + len(response) for question, response in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    labels = torch.full((len(rows), width), -100)
    for row, (question, response) in enumerate(rows):
        ids[row, : len(question) + len(response)] = torch.tensor(question + response)
        labels[row, len(question) : len(question) + len(response)] = torch.tensor(response)
    logits = model(input_ids=ids).logits
    return cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def main() -> None:
    """Make the policy and write its folder; `gtpo_lit.embedded.measure` measures it."""
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
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, options.seed)
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
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(options.output)
    tokenizer.save_pretrained(options.output)


if __name__ == "__main__":
    main()
