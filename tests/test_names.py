"""Names of the package: one word, one thing."""

import ast
from collections import defaultdict
from pathlib import Path

import syntaxlm

PACKAGE = Path(syntaxlm.__file__).parent


def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
