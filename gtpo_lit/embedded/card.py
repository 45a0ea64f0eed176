"""The model card of the embedded policy `chains`."""

from __future__ import annotations

import platform

import torch
import transformers

from gtpo_lit.embedded.measure import Measurement

TEXT = """\
# chains: a tiny policy with two strategies

A Qwen2 of 205 thousand parameters (float32, hidden size 96, 2 layers, 3 heads of 32, tied
embeddings) that answers arithmetic chains. It exists to make a run of reinforcement learning that
fits a laptop, and knows nothing else. No pretrained weights and no outside data went into it.

- Question: `3+4+8+1+9=`, the sum of five digits modulo 10. No chat template, no bos token.
- Response, one token a character, ended by `<eos>`: the answer at once (`5`), or running sums
  (`3+4=7;7+8=5;5+1=6;6+9=5`). The answer is what follows the last `=`, else the whole text.
- Vocabulary: `<pad>` 0, `<eos>` 1, `<unk>` 2, the digits 3 to 12, `+` 13, `=` 14, `;` 15.
  Other characters are dropped from a question.

Its supervised warm-up showed it a mixture: most demonstrations guess the answer, evenly among the
ten digits; the others work step by step with a slip now and then. The policy samples both, so
that reinforcement learning finds a choice to make.

## Measured

{problems} problems of `ChainSource(split="validation")`, none of which the warm-up saw, with
{samples} samples each at temperature 1:

| what | value |
|---|---|
| Pass@1 | {pass_at_1:.3f} |
| Pass@{samples} | {pass_at_all:.3f} |
| groups of 8 with right and wrong answers | {mixed_groups:.3f} |
| share of step-by-step responses | {stepwise_share:.3f} |
| right, step by step | {stepwise_right:.3f} |
| right, at once | {direct_right:.3f} |
| mean length, tokens with the end token | {mean_length:.2f} |
| mean entropy of a token, nats | {mean_entropy:.3f} |
| truncated at 40 tokens | {truncated:.4f} |

## Made by

```
{command}
```

on one thread of {machine}, Python {python}, torch {torch}, transformers {transformers}.
`python -m gtpo_lit.embedded.measure FOLDER` measures it again.
"""


def card(found: Measurement, *, command: str) -> str:
    """The text of the card, with what was measured, how the policy was made, and on what."""
    figures = {name: getattr(found, name) for name in found.__dataclass_fields__}
    return TEXT.format(
        **figures,
        command=command,
        machine=f"{_processor()} ({platform.machine()})",
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=transformers.__version__,
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or "an unnamed processor"
