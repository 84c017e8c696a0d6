"""The Python interface: `load` reads a model as one object, whose methods parse, score and generate."""

from syntaxlm.api.model import LanguageModel, load
from syntaxlm.api.results import Results, SentenceSurprisal

__all__ = ["LanguageModel", "Results", "SentenceSurprisal", "load"]
