"""The names of models of the hub and of transformers."""

from __future__ import annotations

import re

from syntaxlm.errors import InputError

PREFIX = "hf:"  # before the name of a model of transformers
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def is_repository_name(name: str) -> bool:
    """Whether a name has the form of a repository's name: "user/name"."""
    return _REPOSITORY.fullmatch(name) is not None


def check_repository_name(name: str) -> None:
    """Raises InputError for a name that does not have the form of a repository's name."""
    if not is_repository_name(name):
        raise InputError(f"{name}: not the name of a repository; expected user/name")
