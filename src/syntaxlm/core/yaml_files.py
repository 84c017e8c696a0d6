"""YAML files: settings, tables of words, and front matter of model cards, in YAML 1.2."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.files import read_text

MOST_VALUES = 20_000  # in a file, including those of aliases, which may grow exponentially
_MOST_BITS = 4096  # of an integer; Python does not print integers of over 14,000 bits
_LONGEST_VALUE = 60  # characters shown of a wrong value


def read_yaml(path: Path) -> Any:
    """Read a YAML file. Raises InputError with the file and line."""
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: str | Path) -> Any:
    """Parse YAML text.

    Args:
        text: of one document.
        path: its name in messages.

    Raises:
        InputError: with path and line, for text that is not YAML or has too many values.
    """
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        return _parser().load(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        found = f"the character U+{ord(text[error.position]):04X}"
        raise InputError(f"{path}, line {line}: not YAML: found {found}, which YAML does not allow unescaped") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # Not mark.line: in YAML, U+2028 also ends a line, but editors do not count it.
        place = f", line {text.count(chr(10), 0, mark.index) + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        if isinstance(error, DuplicateKeyError):  # whose values may be shown wrong
            problem = problem.partition(" with value ")[0]
        raise InputError(f"{path}{place}: not YAML: {problem}") from None
    except (OverflowError, ValueError) as error:  # an escape of a character that does not exist
        raise InputError(f"{path}: not YAML: {error}") from None


def yaml_text(data: Any) -> str:
    """Return nested dicts, lists and plain values as YAML text, in their order."""
    from ruamel.yaml import YAML

    writer: Any = YAML(typ="safe", pure=True)
    output = io.StringIO()
    writer.default_flow_style = False
    writer.allow_unicode = True
    writer.width = 100
    writer.sort_base_mapping_type_on_output = False
    writer.dump(data, output)
    return output.getvalue()


def _parser() -> Any:
    """Return a new parser, which holds the state of one document."""
    from ruamel.yaml import YAML

    parser: Any = YAML(typ="safe", pure=True)
    parser.Composer, parser.Constructor = _classes()
    return parser


@cache
def _classes() -> tuple[type, type]:
    """Return the classes of a parser. They are defined here because many commands read no YAML, and importing the
    library takes as long as a tenth of torch.
    """
    from ruamel.yaml.composer import Composer, ComposerError
    from ruamel.yaml.constructor import ConstructorError, SafeConstructor
    from ruamel.yaml.events import AliasEvent

    class LimitedComposer(Composer):
        """Refuses millions of values, including those of aliases."""

        def __init__(self, loader: Any = None) -> None:
            super().__init__(loader)
            self._values = 0  # read so far
            self._sizes: dict[int, int] = {}  # number of values in each node

        def compose_node(self, parent: Any, index: Any) -> Any:
            is_alias = self.parser.check_event(AliasEvent)
            before = self._values
            node = super().compose_node(parent, index)
            self._values += self._sizes.get(id(node), 0) if is_alias else 1
            self._sizes.setdefault(id(node), self._values - before)
            if self._values > MOST_VALUES:
                found = f"over {MOST_VALUES:,} values, including those of aliases"
                raise ComposerError(None, None, found, node.start_mark)
            return node

    class LocatingConstructor(SafeConstructor):
        """Reports the place of values that do not fit their tag, such as 2024-99-99."""

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                value = super().construct_object(node, deep)
                if isinstance(value, int) and value.bit_length() > _MOST_BITS:
                    raise ValueError("a number of this size cannot be printed")
                return value
            except (AttributeError, LookupError, TypeError, ValueError):
                found = f'"{shortened(str(node.value), _LONGEST_VALUE)}"'
                problem = f"found {found}, which is not a valid {node.tag.rpartition(':')[2]}"
                raise ConstructorError(None, None, problem, node.start_mark) from None

    return LimitedComposer, LocatingConstructor
