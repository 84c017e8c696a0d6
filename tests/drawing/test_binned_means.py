"""Charts of binned means."""

from __future__ import annotations

import pytest

from syntaxlm.drawing.charts import BinnedMean, binned_means_picture
from tests.drawing.reading import drawn, of_role, read_svg, styled_roles, tooltip, used_roles

BINS = [BinnedMean(2.0, 310.0, 305.0, 315.0, 40), BinnedMean(7.3, 330.0, 320.0, 340.0, 41)]


def test_every_bin_has_a_point_with_its_values_and_an_interval():
    document = binned_means_picture({"lstm": BINS}, "surprisal, bits", "RT").svg()
    root = read_svg(document)
    points = of_role(root, "area-0")
    assert [tooltip(one) for one in points] == [
        "2.00: 310 (305 to 315), 40 words",
        "7.30: 330 (320 to 340), 41 words",
    ]
    assert float(points[0].get("cx")) < float(points[1].get("cx"))
    assert float(points[0].get("cy")) > float(points[1].get("cy"))
    vertical = [one for one in of_role(root, "axis") if one.get("x1") == one.get("x2") == points[1].get("cx")]
    assert len(vertical) == 1
    middle = (float(vertical[0].get("y1")) + float(vertical[0].get("y2"))) / 2
    assert middle == pytest.approx(float(points[1].get("cy")), abs=0.1)
    assert used_roles(document) <= styled_roles(document)


def test_charts_of_several_models_have_the_same_axes():
    lower = [one._replace(mean=one.mean - 100, low=one.low - 100, high=one.high - 100) for one in BINS]
    root = read_svg(binned_means_picture({"a": BINS, "b": lower, "c": BINS, "d": BINS}, "x", "y").svg())
    assert [drawn(one) for one in of_role(root, "title")] == ["a", "b", "c", "d"]
    labels = [drawn(one) for one in of_role(root, "small")]
    assert labels[: len(labels) // 4] * 4 == labels
    first, other = of_role(root, "area-0")[0], of_role(root, "area-0")[2]
    assert float(other.get("cy")) > float(first.get("cy"))
