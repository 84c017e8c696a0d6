"""Sections of a report about the model's trees: F1, recall by label, shape, and drawn sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from syntaxlm.drawing.charts import bar_chart
from syntaxlm.drawing.sentence import Drawing
from syntaxlm.model_io import ModelBundle, structure_name
from syntaxlm.parsing.report import ParsingReport, ScoredSentence, scored_sentences
from syntaxlm.parsing.structure import Rule
from syntaxlm.reports.page import Block, Figure, Paragraph, Section, Table
from syntaxlm.reports.sentence import analyse
from syntaxlm.trees import BootstrapResult, ParsingScores, SeedScores, right, score, trees_of

DRAWN = 3  # number of best and of worst sentences drawn
DRAWN_WORDS = range(6, 26)  # their lengths: long enough to have structure, short enough to read
LABELS, CHARTED_LABELS = 30, 10  # number of gold labels in the table and in the chart, most frequent first


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def parsing_source(parsing: ParsingReport, evidence: str) -> str:
    """Data and protocol of figures measured on the treebank. evidence: such as "distances of layer 2"."""
    scores = parsing.scores[parsing.chosen]
    lengths = scores.by_sentence.lengths
    return (
        f"{parsing.gold.source}; preprocessing {parsing.gold.clean_up}; protocol {scores.protocol};"
        f" {scores.sentences:,} sentences of {lengths.min()} to {lengths.max()} words;"
        f" {evidence}, decoded by {' and '.join(parsing.scores)}"
    )


def parsing_sections(stored: ModelBundle, parsing: ParsingReport) -> list[Section]:
    """All sections that need a treebank evaluation."""
    evidence = structure_name(stored.model) if parsing.layer is None else f"distances of layer {parsing.layer}"
    chosen, source = parsing.scores[parsing.chosen], parsing_source(parsing, evidence)
    branching = score(right(parsing.gold.spans.lengths), parsing.gold.spans, chosen.protocol)
    compared = {**parsing.scores, "right branching": branching}
    return [
        f1_section(parsing, source),
        length_section(compared, source),
        label_section(compared, source),
        *induced_label_sections(parsing, source),
        shape_section(chosen, compared, source),
        *sentence_sections(stored, parsing),
    ]


def f1_section(parsing: ParsingReport, source: str) -> Section:
    """F1 of decoders, baselines and upper bounds; for a model with several layers also of each layer."""
    baselines = parsing.baselines
    rows = [
        _f1_row(f"{name} decoder{' (chosen)' * (name == parsing.chosen)}", one) for name, one in parsing.scores.items()
    ]
    rows += [
        _f1_row("right branching", baselines.right),
        _f1_row("left branching", baselines.left),
        _f1_row("balanced", baselines.balanced),
        *(_seeds_row(title, scores) for title, scores in baselines.random_rows().items()),
    ]
    if parsing.random_weights is not None:
        untrained = parsing.random_weights.f1_by_decoder()
        rows += [_seeds_row(f"random weights, {name} decoder", scores) for name, scores in untrained.items()]
    rows.append(_f1_row("binary upper bound", baselines.binary_bound))
    if baselines.biased_bound is not None:
        rows.append(_f1_row("upper bound of the biased decoder", baselines.biased_bound))
    table = Table("Unlabelled F1, percent", ("trees", "F1", "precision", "recall"), tuple(rows), source)
    differences = (_difference_to_right(name, found) for name, found in parsing.right_by_decoder.items())
    blocks: list[Block] = [table, *map(Paragraph, differences)]
    if parsing.f1_by_layer:
        blocks.append(layer_table(parsing))
    return Section("Unlabelled F1", tuple(blocks))


def _difference_to_right(decoder: str, found: BootstrapResult) -> str:
    return (
        f"{decoder} decoder minus right branching: F1 {100 * found.difference:+.1f}, 95% interval"
        f" {100 * found.low:+.1f} to {100 * found.high:+.1f}, p = {found.p_value:.4f} (paired bootstrap over"
        " sentences)."
    )


def layer_table(parsing: ParsingReport) -> Table:
    """F1 of every distance layer with each decoder."""
    rows = tuple(
        (f"layer {layer}{' (chosen)' * (layer == parsing.layer)}", *map(percent, values.values()))
        for layer, values in parsing.f1_by_layer.items()
    )
    heads = "distances", *(f"{name} decoder" for name in next(iter(parsing.f1_by_layer.values())))
    return Table("F1 by layer, percent", heads, rows, parsing_source(parsing, "distances of each layer"))


def _f1_row(name: str, scores: ParsingScores) -> tuple[str, ...]:
    return name, percent(scores.f1), percent(scores.precision), percent(scores.recall)


def _seeds_row(name: str, scores: SeedScores) -> tuple[str, ...]:
    spread = f"± {percent(scores.std)}, maximum {percent(scores.max)}"
    return f"{name}, mean of {scores.count} seeds ({spread})", percent(scores.mean), "", ""


def length_section(compared: Mapping[str, ParsingScores], source: str) -> Section:
    """compared: the decoders and right branching, by name."""
    values = {name: one.f1_by_length for name, one in compared.items()}
    return _measured("F1 by length", "F1, percent", ("words", "sentences"), values, source, None)


def label_section(compared: Mapping[str, ParsingScores], source: str) -> Section:
    """Recall of each gold label. compared: the decoders and right branching, by name."""
    values = {name: one.recall_by_label for name, one in compared.items()}
    if not next(iter(values.values())):
        why = "The treebank's constituents have no labels."
        return Section("Recall by label", (Paragraph(why, missing=True),))
    source = source + "; spans of two or more words"
    return _measured("Recall by label", "recall, percent", ("label", "gold spans"), values, source, CHARTED_LABELS)


def induced_label_sections(parsing: ParsingReport, source: str) -> list[Section]:
    """The most frequent gold label of each induced label; empty for a model without labels."""
    found = parsing.labels
    if found is None:
        return []
    rows = tuple(
        (
            one.label,
            f"{one.spans:,}",
            f"{one.matched:,}",
            one.gold_label,
            percent(one.gold_spans / one.matched) if one.matched else "",
        )
        for one in found.labels[:LABELS]
    )
    heads = "induced label", "spans", "gold constituents", "most frequent gold label", "its share, percent"
    rest = len(found.labels) - len(rows)
    table = Table(
        "Induced labels, mapped many-to-one to gold labels",
        heads,
        rows,
        f"{source}; {parsing.chosen} decoder{f'; {rest} less frequent labels are not shown' * (rest > 0)}",
    )
    meaning = (
        f"Many-to-one accuracy {percent(found.accuracy)}: of the {found.matched:,} predicted spans that are gold"
        " constituents, the percentage whose gold label is the most frequent one for their induced label. With all"
        f" labels mapped to {found.most_frequent[0]}: {percent(found.baseline)}. The mapping is derived from the same"
        " gold trees."
    )
    return [Section("Induced labels", (table, Paragraph(meaning)))]


def _measured(
    heading: str,
    measure: str,
    heads: tuple[str, str],
    values: Mapping[str, Mapping[str, tuple[float, int]]],
    source: str,
    charted: int | None,
) -> Section:
    """A chart and a table. values: by series, then by row, (fraction, count). charted: rows in the chart, None: all."""
    counts = {row: count for row, (_, count) in next(iter(values.values())).items()}
    shown = list(counts)[:LABELS]
    bars = shown[:charted]
    series = {name: [round(100 * of_row[row][0], 1) for row in bars] for name, of_row in values.items()}
    rows = tuple((row, f"{counts[row]:,}", *(percent(of_row[row][0]) for of_row in values.values())) for row in shown)
    rest = len(counts) - len(shown)
    if rest:
        source += f"; {rest} less frequent ones are not shown"
    table = Table(f"{heading}: {measure}", (*heads, *values), rows)
    title = heading if len(bars) == len(counts) else f"{heading}: the {len(bars)} most frequent"
    return Section(heading, (Figure(bar_chart(bars, series, title, measure), source, table=table),))


def shape_section(chosen: ParsingScores, compared: Mapping[str, ParsingScores], source: str) -> Section:
    """Depth and branching of the induced trees and of the gold trees."""
    shapes = {**{name: one.predicted_shape for name, one in compared.items()}, "gold": chosen.gold_shape}
    rows = tuple(
        (name, f"{shape.depth:.1f}", f"{shape.left:.1f}", f"{shape.right:.1f}")
        for name, shape in shapes.items()
        if shape is not None
    )
    heads = "trees", "mean depth", "left splits, percent", "right splits, percent"
    meaning = (
        "Depth: number of constituents above a word, averaged over a sentence's words, then over sentences. Splits:"
        " percentage of the spans of three or more words that split off their last word (left) or first word (right)."
    )
    return Section("Depth and branching", (Table("Shape of the trees", heads, rows, source), Paragraph(meaning)))


def sentence_sections(stored: ModelBundle, parsing: ParsingReport) -> list[Section]:
    """The best and the worst sentences, drawn next to their gold trees."""
    sentences = scored_sentences(parsing)
    best, worst, rule = best_and_worst(parsing, sentences)
    sections = []
    for heading, places in (("Best sentences", best), ("Worst sentences", worst)):
        blocks: list[Block] = [Paragraph(rule, missing=not places)]
        blocks += [_drawn(stored, parsing, place, sentences[place]) for place in places]
        sections.append(Section(heading, tuple(blocks)))
    return sections


def best_and_worst(
    parsing: ParsingReport, sentences: Sequence[ScoredSentence], count: int = DRAWN
) -> tuple[list[int], list[int], str]:
    """Indices of the sentences with the highest and lowest F1, without overlap, and a note on how they were chosen.

    Ties: more gold spans first, then treebank order. sentences: all scored ones.
    """
    spans = parsing.scores[parsing.chosen].by_sentence.gold_spans.tolist()
    scorable = [place for place, number in enumerate(spans) if number > 0]
    places = [place for place in scorable if sentences[place].length in DRAWN_WORDS]
    rule = f"Chosen by F1 among the {len(places):,} sentences of {DRAWN_WORDS[0]} to {DRAWN_WORDS[-1]} words"
    if len(places) < 2 * count < len(scorable) or not places:
        places = scorable
        rule = f"Chosen by F1 among all {len(places):,} sentences"
    rule += " whose gold trees have scored spans; of equal F1, those with more such spans first."
    best = sorted(places, key=lambda place: (-sentences[place].f1, -spans[place]))[:count]
    rest = set(places) - set(best)
    worst = sorted(rest, key=lambda place: (sentences[place].f1, -spans[place], place))[:count]
    return best, worst, rule


def _drawn(stored: ModelBundle, parsing: ParsingReport, place: int, sentence: ScoredSentence) -> Figure:
    """The scored tree next to the gold tree; the bars are the distances."""
    index = parsing.scores[parsing.chosen].by_sentence.indices[[place]]
    gold = parsing.gold.trees[int(index[0])]
    (tree,) = trees_of(parsing.predicted[parsing.chosen].select(index), [gold.words])
    analysis = analyse(stored, gold, cast(Rule, parsing.chosen), parsing.layer)
    source = (
        f"F1 {percent(sentence.f1)}, precision {percent(sentence.precision)}, recall {percent(sentence.recall)}."
        f" Sentence {sentence.number:,} of {parsing.gold.source}, {sentence.length} words; {sentence.decoder} decoder;"
        f" preprocessing {parsing.gold.clean_up}; protocol {sentence.protocol}."
    )
    if any(analysis.unknown):
        source += " Underlined words are not in the model's vocabulary."
    return Figure(Drawing(replace(analysis, tree=tree), gold).tree_picture(), source, " ".join(gold.words))
