"""What came back from the attacks: the outcomes by room, and the places of what should not be."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ODD = ("raw", "hang", "nan", "crash", "wrong")
"""Outcomes that should not be."""


@dataclass
class Finding:
    """What an input led to."""

    input: str
    outcome: str
    error: str = ""
    place: str = ""
    message: str = ""
    seconds: float = 0.0


def report(findings: Sequence[Finding], rooms: Sequence[str]) -> str:
    """A table of the outcomes by room, and the places of what should not be."""
    kinds = ("typed", "valid", "the user's own", "explained", *ODD)
    table: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        name = re.split(r"[#(]", finding.input)[0]
        table[name if name in rooms else name.partition(".")[0], finding.outcome] += 1
    lines = [f"{'room':20}{'inputs':>8}" + "".join(f"{kind:>16}" for kind in kinds)]
    for room in [*rooms, "all"]:
        row = [sum(n for (r, k), n in table.items() if k == kind and room in (r, "all")) for kind in kinds]
        lines.append(f"{room:20}{sum(row):8}" + "".join(f"{number:16}" for number in row))
    lines.append("")
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        if finding.outcome in ODD:
            groups.setdefault(
                (finding.outcome, finding.place or finding.input.partition("(")[0], finding.error), []
            ).append(finding)
    for (outcome, place, error), found in sorted(groups.items(), key=lambda g: (g[0][0], -len(g[1]))):
        message = (found[0].message.splitlines() or [""])[0][:110]
        lines.append(f"{outcome} {len(found):4}  {place}  {error}: {message}")
        lines += [f"             {finding.input}" for finding in found[:4]]
    return "\n".join(lines)


def explained(findings: Sequence[Finding]) -> list[Finding]:
    """The same findings; what is as it should be, for a reason, is called so."""
    from attack.allowed import reason

    return [replace(finding, outcome="explained") if reason(finding) else finding for finding in findings]


def finish(findings: Sequence[Finding], names: Sequence[str], path: Path | None, seed: int) -> int:
    """Print the report, write the odd ones, and return the exit status."""
    raw = sum(finding.outcome == "raw" for finding in findings)
    findings = explained(findings)
    print(report(findings, names))
    print(f"{raw} raw errors, {raw / max(len(findings), 1):.2%}, explained ones (attack/allowed.py) among them")
    odd = [asdict(finding) for finding in findings if finding.outcome in ODD]
    if path:
        path.write_text(json.dumps({"seed": seed, "inputs": len(findings), "odd": odd}, indent=1))
    return min(len(odd), 1)
