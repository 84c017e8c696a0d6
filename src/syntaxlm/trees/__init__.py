"""Constituency and dependency trees: files, preprocessing, decoding, baselines, scoring.  NumPy and nltk, no torch."""

from syntaxlm.trees.agreement import AgreementMatrix, BranchingF1, agreement, branching_f1
from syntaxlm.trees.attachment import AttachmentScores, attachment, compare_attachment
from syntaxlm.trees.averaging import AveragedTrees, average, average_files
from syntaxlm.trees.baselines import balanced, biased_upper_bound, binary_upper_bound, left, random_trees, right
from syntaxlm.trees.brackets import (
    format_brackets,
    from_nltk,
    parse_brackets,
    read_brackets,
    to_nltk,
    write_brackets,
)
from syntaxlm.trees.conllu import (
    ConlluSentence,
    dependency_faults,
    format_conllu,
    is_projective,
    iterate_conllu,
    iterate_dependencies,
    read_conllu,
    read_conllx,
    read_dp,
    write_conllu,
)
from syntaxlm.trees.decoding import DECODING_RULES, DecodingRule, decode, decode_by_definition
from syntaxlm.trees.dependencies import Edge, Paths, Step, in_order, paths_of, steps_of, tree_of_steps
from syntaxlm.trees.label_mapping import LabelMapping, MappedLabel, label_mapping
from syntaxlm.trees.matching import match_words
from syntaxlm.trees.preprocessing import (
    PREPROCESSINGS,
    GoldPreprocessing,
    clean,
    clean_all,
    find_preprocessing,
    plain_label,
)
from syntaxlm.trees.scoring import PROTOCOLS, ParsingScores, Protocol, SentenceScores, score
from syntaxlm.trees.significance import (
    BaselineScores,
    BootstrapResult,
    SeedScores,
    baseline_scores,
    over_seeds,
    paired_bootstrap,
)
from syntaxlm.trees.span_decoding import SPAN_RULES, SpanRule, SpanScores, decode_spans
from syntaxlm.trees.spans import SpanSets, format_spans, trees_of
from syntaxlm.trees.statistics import BranchingStatistics, f1_by_length, recall_by_label, shape_of
from syntaxlm.trees.ties import TIE_RULES, TieBreaking
from syntaxlm.trees.tree import Constituent, DependencyTree, Tree

__all__ = [
    "DECODING_RULES",
    "PREPROCESSINGS",
    "PROTOCOLS",
    "SPAN_RULES",
    "TIE_RULES",
    "AgreementMatrix",
    "AttachmentScores",
    "AveragedTrees",
    "BaselineScores",
    "BootstrapResult",
    "BranchingF1",
    "BranchingStatistics",
    "ConlluSentence",
    "Constituent",
    "DecodingRule",
    "DependencyTree",
    "Edge",
    "GoldPreprocessing",
    "LabelMapping",
    "MappedLabel",
    "ParsingScores",
    "Paths",
    "Protocol",
    "SeedScores",
    "SentenceScores",
    "SpanRule",
    "SpanScores",
    "SpanSets",
    "Step",
    "TieBreaking",
    "Tree",
    "agreement",
    "attachment",
    "average",
    "average_files",
    "balanced",
    "baseline_scores",
    "biased_upper_bound",
    "binary_upper_bound",
    "branching_f1",
    "clean",
    "clean_all",
    "compare_attachment",
    "decode",
    "decode_by_definition",
    "decode_spans",
    "dependency_faults",
    "f1_by_length",
    "find_preprocessing",
    "format_brackets",
    "format_conllu",
    "format_spans",
    "from_nltk",
    "in_order",
    "is_projective",
    "iterate_conllu",
    "iterate_dependencies",
    "label_mapping",
    "left",
    "match_words",
    "over_seeds",
    "paired_bootstrap",
    "parse_brackets",
    "paths_of",
    "plain_label",
    "random_trees",
    "read_brackets",
    "read_conllu",
    "read_conllx",
    "read_dp",
    "recall_by_label",
    "right",
    "score",
    "shape_of",
    "steps_of",
    "to_nltk",
    "tree_of_steps",
    "trees_of",
    "write_brackets",
    "write_conllu",
]
