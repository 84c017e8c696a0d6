"""Formulas as MathML, made when the site is built: browsers show it without scripts, fonts or network."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

# What pymdownx.arithmatex makes of $ ... $ and $$ ... $$.
_NUMBER = re.compile(r"\\tag\{([^}]*)\}")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\(?:\(|\[)(.*?)\\(?:\)|\])</\1>', re.DOTALL)


def with_mathml(page: str) -> str:
    """A page of HTML with its LaTeX formulas as MathML. Raises ValueError naming a formula that cannot be read."""
    return _FORMULA.sub(_mathml, page)


def _mathml(match: re.Match[str]) -> str:
    """A formula as MathML, a block with its number."""
    element, content = match.groups()
    numbers = "".join(_NUMBER.findall(content))
    latex = html.unescape(_NUMBER.sub("", content)).strip()
    block = element == "div"
    try:
        formula: str = convert(latex, display="block" if block else "inline")
    except Exception as error:  # the exceptions of latex2mathml have no base class of their own
        raise ValueError(f"the formula {latex!r} cannot be made MathML: {error!r}") from error
    if "\\" in formula:  # unknown commands are left as they are
        raise ValueError(f"the formula {latex!r} has a command that cannot be made MathML: {formula}")
    formula = formula.replace("<math ", f'<math alttext="{html.escape(latex)}" ', 1)
    if not block:
        return formula
    number = f'<span class="number">({numbers})</span>' if numbers else ""
    return f'<div class="formula">{formula}{number}</div>'
