"""Which model to train, said without loading it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from gtpo_lit.policy import CausalPolicy

DType = Literal["float32", "bfloat16", "float16", "auto"]
EMBEDDED = "embedded:"


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """A causal language model by path, and how to load it. Construction reads nothing."""

    path: str = "embedded:chains"
    """A Hugging Face folder, a hub id, or "embedded:NAME" for a policy that the package ships."""
    dtype: DType = "float32"
    """Of the weights; log-probs and entropies are computed in float32 at least."""
    attn_implementation: str = "sdpa"
    """As transformers names it: "sdpa", "eager", "flash_attention_2" and others."""
    chunk_size: int | None = None
    """Tokens whose logits exist at a time; all of a micro-batch's if not given."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward: less memory, more time."""
    trust_remote_code: bool = False
    """Run code that comes with the model."""
    revision: str | None = None
    """Branch, tag or commit of a hub id."""

    def __post_init__(self) -> None:
        """Refuse values that no model could load with.

        Raises:
            ValueError: naming option and value.
        """
        if self.dtype not in get_args(DType):
            raise ValueError(f"model.policy.dtype must be one of {get_args(DType)}: {self.dtype!r}")
        if self.chunk_size is not None and self.chunk_size < 1:
            raise ValueError(f"model.policy.chunk_size must be at least 1, got {self.chunk_size}")

    def resolve(self) -> str:
        """The folder or hub id to load from.

        Raises:
            ValueError: for a folder, or an embedded policy, that does not exist.
        """
        if self.path.startswith(EMBEDDED):
            name = self.path.removeprefix(EMBEDDED)
            root = files("gtpo_lit") / "embedded"
            known = sorted(item.name for item in root.iterdir() if (item / "config.json").is_file())
            if name not in known:
                raise ValueError(f"model.policy.path = {self.path!r}: embedded are {known}")
            return str(root / name)
        path = Path(self.path).expanduser()
        if path.is_dir():
            return str(path)
        if self.path.startswith((".", "/", "~")) or path.is_file():
            raise ValueError(f"model.policy.path = {self.path!r}: no such folder")
        return self.path

    def check(self) -> None:
        """Say what is wrong with the model's files before any weight is read.

        Raises:
            ValueError: if the config, the tokenizer or safetensors weights are not there.
        """
        source = self.resolve()
        self._read(AutoConfig.from_pretrained, source)
        self.load_tokenizer()
        folder = Path(source)
        if folder.is_dir() and not list(folder.glob("*.safetensors")):
            found = sorted(item.name for item in folder.glob("*.bin"))
            extra = f" (only {', '.join(found)}, which is not loaded: convert it)" if found else ""
            raise ValueError(f"model.policy.path = {self.path!r} holds no *.safetensors{extra}")

    def load_tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's tokenizer."""
        tokenizer = self._read(AutoTokenizer.from_pretrained, self.resolve())
        assert isinstance(tokenizer, PreTrainedTokenizerBase)
        return tokenizer

    def load(self) -> CausalPolicy:
        """The policy with its weights; no global random stream is moved."""
        with torch.random.fork_rng(devices=[]):
            model = self._read(
                AutoModelForCausalLM.from_pretrained,
                self.resolve(),
                dtype="auto" if self.dtype == "auto" else getattr(torch, self.dtype),
                attn_implementation=self.attn_implementation,
                use_safetensors=True,
            )
        if self.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        return CausalPolicy(model, self.load_tokenizer(), chunk_size=self.chunk_size)

    def _read(self, reader: Any, source: str, **options: Any) -> Any:
        if not Path(source).is_dir():
            options["revision"] = self.revision
        try:
            return reader(source, trust_remote_code=self.trust_remote_code, **options)
        except OSError as error:
            offline = os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")
            reason = (
                "it is not in the local cache and HF_HUB_OFFLINE is set"
                if offline and not Path(source).is_dir()
                else str(error).splitlines()[0]
            )
            raise ValueError(
                f"model.policy.path = {self.path!r} is neither a folder nor a hub id that loads: "
                f"{reason}"
            ) from error
