"""Learning curves in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Point = tuple[float, float]

WIDTH = 60  # columns of the curves
HEIGHT = 8  # lines of the curves
FEWEST = 3  # points that are worth a curve
SIGNS = "●·×"  # of the curves, in order


def draw_curves(curves: Mapping[str, Sequence[Point]], horizontal: str, width: int = WIDTH) -> str:
    """Return curves in characters, the first one above the others; "" if it has fewer than three points.

    Args:
        curves: points (x, y) by name, at most three.
        horizontal: what x is.
        width: columns of the curves.
    """
    first = next(iter(curves.values()), ())
    points = [point for curve in curves.values() for point in curve]
    if len(first) < FEWEST or width < FEWEST:
        return ""
    xs, ys = zip(*points, strict=True)
    left, right = min(xs), max(xs)
    low, high = min(ys), max(ys)
    grid = [[" "] * width for _ in range(HEIGHT)]
    signs = dict(zip(curves, SIGNS, strict=False))
    for name in reversed(list(curves)):
        for x, y in curves[name]:
            column = round((width - 1) * (x - left) / ((right - left) or 1))
            line = round((HEIGHT - 1) * (high - y) / ((high - low) or 1))
            grid[line][column] = signs[name]

    # The highest and lowest value stand left of their lines, the first and last x below the axis.
    labels = [f"{high:.2f}", *[""] * (HEIGHT - 2), f"{low:.2f}"]
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} │{''.join(row).rstrip()}" for label, row in zip(labels, grid, strict=True)]
    ends = f"{horizontal} {round(left, 1):g}"
    lines.append(f"{'':{margin}} └{'─' * width}")
    lines.append(f"{'':{margin}}  {ends}{f'{round(right, 1):g}':>{max(1, width - len(ends))}}")
    legend = "   ".join(f"{sign} {name}" for name, sign in signs.items())
    return "\n".join([*lines, f"{'':{margin}}  {legend}"])
