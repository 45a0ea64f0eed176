"""Which share of a step's training a rank has, where several ranks may train on the same one."""

from __future__ import annotations

from dataclasses import dataclass

from lightning.pytorch import Trainer


@dataclass(frozen=True, kw_only=True)
class Replica:
    """A rank's place among those that train on different sequences.

    Every rank samples. What then goes through the policy is split over replicas: with tensor
    parallelism the ranks of one replica compute the same sequences together.
    """

    index: int = 0
    count: int = 1
    copies: int = 1
    """Ranks of one replica: what is summed over all ranks counts each sequence so often."""

    @classmethod
    def of(cls, trainer: Trainer) -> Replica:
        """This rank's, by the trainer's strategy."""
        places = trainer.distributed_sampler_kwargs
        if places is None:
            return cls()
        count = int(places["num_replicas"])
        return cls(index=int(places["rank"]), count=count, copies=trainer.world_size // count)

    def share(self, rows: int) -> range:
        """This replica's contiguous part of `rows` rows; parts differ by one row at most.

        >>> [Replica(index=index, count=3).share(7) for index in range(3)]
        [range(0, 2), range(2, 4), range(4, 7)]
        """
        start, end = (rows * (self.index + part) // self.count for part in (0, 1))
        return range(start, end)

    def longest_share(self, rows: int) -> int:
        """Rows of the largest part of any replica."""
        return -(-rows // self.count)
