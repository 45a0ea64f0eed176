"""Worker processes that judge answers and can be killed."""

from gtpo_lit.tasks.pool.limits import Limits
from gtpo_lit.tasks.pool.verdict import Verdict
from gtpo_lit.tasks.pool.worker_pool import WorkerPool, shared_pool

__all__ = ["Limits", "Verdict", "WorkerPool", "shared_pool"]
