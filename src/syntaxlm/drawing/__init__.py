"""Pictures of trees, distances, gates, attention and charts, as SVG, HTML and PNG. Imports no torch and no model."""

from syntaxlm.drawing.charts import (
    bar_chart,
    bar_chart_svg,
    heat_map,
    heat_map_svg,
    line_chart,
    line_chart_svg,
    scatter_chart,
)
from syntaxlm.drawing.dependencies import dependency_picture, dependency_svg
from syntaxlm.drawing.files import png
from syntaxlm.drawing.page import Section, facts_html, html_page
from syntaxlm.drawing.svg import Picture, Theme, beside, stacked
from syntaxlm.drawing.tree import compare, tree_picture, tree_svg

__all__ = [
    "Picture",
    "Section",
    "Theme",
    "bar_chart",
    "bar_chart_svg",
    "beside",
    "compare",
    "dependency_picture",
    "dependency_svg",
    "facts_html",
    "heat_map",
    "heat_map_svg",
    "html_page",
    "line_chart",
    "line_chart_svg",
    "png",
    "scatter_chart",
    "stacked",
    "tree_picture",
    "tree_svg",
]
