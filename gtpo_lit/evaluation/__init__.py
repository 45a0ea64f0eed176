"""How well a policy solves sets of problems: estimates, intervals, diversity, reports."""

from gtpo_lit.evaluation.diversity import distinct_n, distinct_paths, solution_path
from gtpo_lit.evaluation.estimates import avg_at_k, best_at_k, maj_at_k, pass_at_k
from gtpo_lit.evaluation.interval import Interval, problem_bootstrap
from gtpo_lit.evaluation.outcome import ProblemOutcome, outcome_of
from gtpo_lit.evaluation.rebound import Rebound, entropy_rebound
from gtpo_lit.evaluation.report import report_json, report_text, write_report
from gtpo_lit.evaluation.samples import SampleFile
from gtpo_lit.evaluation.set_summary import SetSummary, powers_of_two, summarise
from gtpo_lit.evaluation.votes import vote_key

__all__ = [
    "Interval",
    "ProblemOutcome",
    "Rebound",
    "SampleFile",
    "SetSummary",
    "avg_at_k",
    "best_at_k",
    "distinct_n",
    "distinct_paths",
    "entropy_rebound",
    "maj_at_k",
    "outcome_of",
    "pass_at_k",
    "powers_of_two",
    "problem_bootstrap",
    "report_json",
    "report_text",
    "solution_path",
    "summarise",
    "vote_key",
    "write_report",
]
