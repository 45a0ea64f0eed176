"""Where a policy comes from, and everything that can be wrong with it before weights load."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from gtpo_lit.policy_lora import LoRA

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

    from gtpo_lit.policy import CausalPolicy

Dtype = Literal["float32", "bfloat16", "float16", "float64", "auto"]

EMBEDDED = "embedded:"
OPTION = "model.policy.path"
# owner/name or name, as the hub spells them.
HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """A pretrained causal LM by name. Building one reads nothing from disk.

    Args:
        path: a model folder, a hub id, or `embedded:NAME` for a model that comes with the
            package.
        dtype: of the weights; `auto` takes the one they were saved in.
        attn_implementation: attention kernel; null leaves the choice to transformers.
        trust_remote_code: run model code that comes with the weights.
        chunk_size: tokens that the output head takes at a time; null takes all at once.
        gradient_checkpointing: compute layer activations again in the backward pass, to
            save memory.
        revision: branch, tag or commit of a hub id.
        lora: train low-rank adapters alone; null trains all weights.
    """

    path: str = "embedded:chains"
    dtype: Dtype = "float32"
    attn_implementation: str | None = "sdpa"
    trust_remote_code: bool = False
    chunk_size: int | None = None
    gradient_checkpointing: bool = False
    revision: str | None = None
    lora: LoRA | None = None

    def __post_init__(self) -> None:
        """Raise ValueError on values that no model could make right."""
        if self.dtype not in get_args(Dtype):
            raise ValueError(f"model.policy.dtype must be in {get_args(Dtype)}, got {self.dtype!r}")
        if self.chunk_size is not None and self.chunk_size < 1:
            raise ValueError(f"model.policy.chunk_size must be at least 1, got {self.chunk_size}")

    def resolve(self) -> str:
        """The model folder, or the hub id where no folder is meant.

        Raises:
            ValueError: no such embedded model or folder; or HF_HUB_OFFLINE is set and the hub
                cache lacks the model.
        """
        if self.path.startswith(EMBEDDED):
            return _embedded_folder(self.path)
        folder = Path(self.path).expanduser()
        if folder.is_dir():
            return str(folder)
        if folder.exists() or not HUB_ID.fullmatch(self.path):
            raise ValueError(f"{OPTION}: no such model folder: {self.path!r}")
        if _offline() and self._cached_folder() is None:
            from huggingface_hub.constants import HF_HUB_CACHE

            raise ValueError(
                f"{OPTION}: {self.path!r} is no folder here, and as a hub id it cannot be fetched "
                f"since HF_HUB_OFFLINE is set; config.json is missing from the cache {HF_HUB_CACHE}"
            )
        return self.path

    def check(self) -> None:
        """Load everything but the weights, on no device.

        Raises:
            ValueError: config, tokenizer or safetensors are missing or do not fit each other,
                or the model does not support the attention or the adapters asked for.
        """
        import torch
        from transformers import AutoModelForCausalLM

        auto: Any = AutoModelForCausalLM  # its methods carry no types
        path = self.resolve()
        folder = self._folder(path)
        if folder is not None:
            _check_safetensors(folder)
        config = self.load_config()
        try:
            with torch.random.fork_rng(devices=[]), torch.device("meta"):
                model = auto.from_config(
                    config,
                    attn_implementation=self.attn_implementation,
                    trust_remote_code=self.trust_remote_code,
                )
        except (ImportError, ValueError) as error:  # how transformers says that it cannot
            raise ValueError(
                f"{OPTION}={self.path!r} with model.policy.attn_implementation="
                f"{self.attn_implementation!r} is refused by transformers: {error}"
            ) from error
        if self.lora is not None:
            self.lora.targets(model)
        tokens, rows = len(self.load_tokenizer()), config.get_text_config().vocab_size
        if tokens > rows:
            raise ValueError(
                f"{OPTION}: the tokenizer of {self.path!r} has {tokens} tokens, "
                f"but the model has only {rows}"
            )

    def load_tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that comes with the model.

        Raises:
            ValueError: there is none, or it does not load.
        """
        from transformers import AutoTokenizer

        path = self.resolve()
        try:
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                path, **self._source()
            )
        except (OSError, ValueError) as error:  # transformers names neither option nor value
            raise ValueError(f"{OPTION}: no tokenizer loads from {self.path!r}: {error}") from error
        # Without files transformers makes up an empty tokenizer of the class in config.json.
        folder, names = self._folder(path), {*tokenizer.vocab_files_names.values()}
        if folder is not None and not any((folder / name).is_file() for name in names):
            raise ValueError(
                f"{OPTION}: no tokenizer loads from {self.path!r}: none of {sorted(names)} is there"
            )
        return tokenizer

    def load(self) -> CausalPolicy:
        """The policy on the CPU, in train mode, without touching global random streams.

        Dropout is set to 0, as the ratio of new to old policy must be 1 before the first update.

        Raises:
            ValueError: what `check` raises, or the weights do not fill the model.
        """
        import torch
        from transformers import AutoModelForCausalLM

        from gtpo_lit.policy import CausalPolicy
        from gtpo_lit.policy_adapters import adapt

        auto: Any = AutoModelForCausalLM  # its methods carry no types
        self.check()
        path = self.resolve()
        # Creating a model draws initial weights before it reads the saved ones.
        with torch.random.fork_rng(devices=[]):
            model, report = auto.from_pretrained(
                path,
                config=_without_dropout(self.load_config()),
                dtype=self.dtype if self.dtype == "auto" else getattr(torch, self.dtype),
                attn_implementation=self.attn_implementation,
                use_safetensors=True,
                output_loading_info=True,
                **self._source(),
            )
        for problem in ("missing_keys", "mismatched_keys"):
            if report[problem]:
                raise ValueError(
                    f"{OPTION}: the weights in {self.path!r} do not fill the model; "
                    f"{problem}: {sorted(map(str, report[problem]))[:5]}"
                )
        if self.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        # Gradient checkpointing works in train mode only, and from_pretrained leaves eval mode.
        policy = CausalPolicy(model.train(), self.load_tokenizer(), chunk_size=self.chunk_size)
        if self.lora is not None:
            adapt(policy, self.lora)
        return policy

    def load_config(self) -> PretrainedConfig:
        """The model's config.

        Raises:
            ValueError: there is none, or it does not load.
        """
        from transformers import AutoConfig

        path = self.resolve()
        try:
            config: PretrainedConfig = AutoConfig.from_pretrained(path, **self._source())
        except (OSError, ValueError) as error:  # transformers names neither option nor value
            raise ValueError(f"{OPTION}: no config loads from {self.path!r}: {error}") from error
        return config

    def _source(self) -> dict[str, Any]:
        return {"trust_remote_code": self.trust_remote_code, "revision": self.revision or "main"}

    def _folder(self, path: str) -> Path | None:
        return Path(path) if Path(path).is_dir() else self._cached_folder()

    def _cached_folder(self) -> Path | None:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(self.path, "config.json", revision=self.revision)
        return Path(found).parent if isinstance(found, str) else None


def _offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _embedded_folder(path: str) -> str:
    root = Path(str(importlib.resources.files("gtpo_lit"))) / "embedded"
    name = path.removeprefix(EMBEDDED)
    if not name or not (root / name / "config.json").is_file():
        known = sorted(child.parent.name for child in root.glob("*/config.json"))
        raise ValueError(f"{OPTION}: no embedded model {path!r}; there are {known}")
    return os.fspath(root / name)


def _check_safetensors(folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        wanted = set(json.loads(index.read_text())["weight_map"].values())
    else:
        wanted = {"model.safetensors"}
    missing = sorted(name for name in wanted if not (folder / name).is_file())
    if missing:
        pickled = sorted(path.name for path in folder.glob("*.bin"))
        hint = f"; pickled weights are not accepted: {pickled}" if pickled else ""
        raise ValueError(f"{OPTION}: {str(folder)!r} lacks safetensors {missing}{hint}")


def _without_dropout(config: PretrainedConfig) -> PretrainedConfig:
    for name, value in config.get_text_config().to_dict().items():
        if ("dropout" in name or name.endswith("pdrop")) and isinstance(value, float):
            setattr(config.get_text_config(), name, 0.0)
    return config
