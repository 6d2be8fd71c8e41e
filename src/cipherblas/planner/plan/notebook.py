"""A plan as HTML, as notebooks show it: cards with the first figures, a table of nodes, and the whole text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from cipherblas.common.errors import printable
from cipherblas.planner.plan.explain import duration, shown_nodes, size
from cipherblas.planner.plan.plan import Plan

CARD = "display:inline-block;border:1px solid #8888;border-radius:6px;padding:4px 10px;margin:3px"
NODES = ("node", "form", "how", "limbs", "time")
MAX_SHOWN_NODES = 500


def as_html(plan: Plan, formula: str, explanation: str) -> str:
    """Return the plan of a program as HTML without scripts; every text in it is escaped."""
    security = f"{plan.parameters.security} bits" if plan.parameters.security else "NONE"
    cards = (
        ("algorithm", plan.algorithm),
        ("server", f"{duration(plan.seconds)} (predicted)"),
        ("error", f"below {plan.error:.2g}"),
        ("up", size(plan.upload_bytes)),
        ("down", size(plan.result_bytes)),
        ("keys", size(plan.key_bytes)),
        ("peak memory", size(plan.peak_bytes)),
        ("ring degree", str(plan.parameters.n)),
        ("security", security),
    )
    shown = shown_nodes(plan)
    rows = [(one.title, one.form, one.how, one.limbs, one.time) for one in shown[:MAX_SHOWN_NODES]]
    left_out = len(shown) - len(rows)
    more = f"<p>{left_out} more nodes</p>" if left_out else ""
    parts = [
        f'<div style="{CARD}"><small>{_text(name)}</small><br><b>{_text(value)}</b></div>'
        for name, value in cards
    ]
    return "".join(
        (
            f"<div><p><code>{_text(formula)}</code></p>{''.join(parts)}",
            f"<details><summary>{len(shown)} nodes</summary>{_table(NODES, rows)}{more}</details>",
            f"<details><summary>the whole plan</summary><pre>{_lines(explanation)}</pre></details></div>",
        )
    )


def _text(value: str) -> str:
    return html.escape(printable(value))


def _lines(text: str) -> str:
    return "\n".join(map(_text, text.splitlines()))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(one)}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
