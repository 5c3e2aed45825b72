"""Raw errors and NaN that are as they should be, each with the reason. Everything else is a defect."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple


class Allowed(NamedTuple):
    """Patterns of the input, of the error's name and of its message; and why it is right."""

    input: str
    error: str
    message: str
    reason: str


ALLOWED: Final = (
    Allowed(
        r".*", r"MemoryError|RuntimeError", r"^$|Unable to allocate|can't allocate memory|bad_alloc",
        "There is not the memory for that many numbers: nothing else can be said, and nothing is wrong or lost.",
    ),
    Allowed(
        r".*\.plot\(.*color=.*", r"ValueError|TypeError|RecursionError|RuntimeError", r".*",
        "Styles go to matplotlib as they are; its errors name the option and what it may be.",
    ),
    Allowed(
        r"estimators\..*", r"ValueError|TypeError|NotFittedError|InvalidParameterError", r".*",
        "scikit-learn's own checks of X, y, weights and random_state: users know them, check_estimator asks for them.",
    ),
    Allowed(
        r"distributed\.ParallelStacks\.load_state_dict.*", r"TypeError|RuntimeError", r"state_dict",
        "torch's own errors of load_state_dict, which callers of any module catch.",
    ),
    Allowed(
        r".*\b(predict|step|frozen|function|solve|act|build|conv|look|h|get|stand|target)=@(class|\w*function|linear|pyg|object|"
        r"pyg_\w+|text_subclass).*",
        r"\w+", r".*",
        "The user's own function gave something else than was asked for: torch's error shows where.",
    ),
    Allowed(
        r".*@inference.*", r"RuntimeError", r"Inference tensors cannot be saved for backward",
        "torch's own rule for tensors of torch.inference_mode, and its error says what to do.",
    ),
    Allowed(
        r".*@fake.*", r"\w+", r".*",
        "Fake tensors belong to the compiler; outside of its mode torch refuses them itself.",
    ),
    Allowed(
        r"\w+\.\w+(\.\w+)?(#\d+)?\(.*@(deep|loop).*", r"RecursionError", r"repr",
        "The repr of the caller's own list of 20,000 levels, which Python cannot print.",
    ),
)  # fmt: skip

NAN: Final = (
    Allowed(
        r".*=~3e38.*", "", r".*",
        "Sums with 3e38, the largest float32, overflow to infinity, and differences of such are NaN.",
    ),
    Allowed(
        r"spectral\.(empirical_\w+|band_response|layer_response)\(.*", "", r".*",
        "A frequency that the input does not have is NaN, as the docstrings say: its response is unknown.",
    ),
)  # fmt: skip


def reason(finding: Any) -> str:
    """Why this is right, or nothing."""
    rules = {"raw": ALLOWED, "nan": NAN}.get(finding.outcome, ())
    for rule in rules:
        named = re.fullmatch(rule.error, finding.error) if finding.outcome == "raw" else True
        if re.fullmatch(rule.input, finding.input) and named and re.search(rule.message, finding.message):
            return rule.reason
    return ""
