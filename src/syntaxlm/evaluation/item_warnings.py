"""Lines on what is doubtful about the surprisals of items: regions and conditions that are missing, unknown words, and
sentences that a model reads alike."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import combinations, zip_longest

from syntaxlm.core.errors import amount
from syntaxlm.data.stimuli import Stimuli
from syntaxlm.evaluation.item_design import ItemContrast
from syntaxlm.scoring.marks import remark_on_marks
from syntaxlm.scoring.word_table import WordScores

_EXAMPLES = 5  # items in a line


def warnings_of(
    stimuli: Stimuli, scores: Mapping[str, WordScores], critical: str | None, contrasts: Sequence[ItemContrast]
) -> list[str]:
    """Return lines on the regions and conditions of sentences, on what models do not know or read, and on contrasts.

    Args:
        scores: the scores of each model, by name.
        critical: name of the region that the question is about; None for all.
        contrasts: the contrasts of the regions.
    """
    items = len(dict.fromkeys(stimuli.items))
    lines = [*_uneven_regions(stimuli), *_empty_regions(stimuli, critical), *_uneven_conditions(stimuli)]
    for model, model_scores in scores.items():
        if unknown := unknown_words(stimuli, model_scores, critical):
            place = "" if critical is None else f" in region {critical} or before it"
            examples = [f"item {item}: {', '.join(words)}" for item, words in list(unknown.items())[:_EXAMPLES]]
            more = "; ..." if len(unknown) > _EXAMPLES else ""
            lines.append(
                f"{model}: unknown words{place} in {len(unknown):,} of {items:,} items ({len(unknown) / items:.0%}):"
                f" {'; '.join(examples)}{more}. The surprisal of an unknown word is not informative, and the surprisals"
                " of later words depend on the word"
            )
        lines += _unread_regions(stimuli, model, model_scores, critical)
        if alike := _alike(stimuli, model_scores):
            words = _differing(stimuli, model_scores, alike[0])
            lines.append(
                f"{model}: cannot distinguish sentences of {len(alike):,} of {items:,} items, which differ only in"
                f" what it does not read or know, such as {words} in item {alike[0]}"
            )
    lines += _nearly_constant(contrasts)
    return lines + remark_on_marks({model: model_scores.bits_of_marks for model, model_scores in scores.items()})


def _nearly_constant(contrasts: Sequence[ItemContrast]) -> list[str]:
    """Return a line if contrasts have nearly the same value in all items."""
    constant = [contrast for contrast in contrasts if contrast.test.hardly_varies and contrast.words == "all"]
    if not constant:
        return []
    first = constant[0]
    model = f"{first.model} minus {first.minus}" if first.minus else first.model
    further = f" (and {amount(len(constant) - 1, 'other contrast')})" if len(constant) > 1 else ""
    return [
        f"{model}: the {first.measure} of region {first.region} is nearly the same in all items, so t ="
        f" {first.test.t:,.0f} of the contrast {first.contrast}, {first.levels},{further} is no evidence for other"
        " items. Do the items have the same words there?"
    ]


def unknown_words(stimuli: Stimuli, scores: WordScores, critical: str | None) -> dict[str, list[str]]:
    """Return the unknown words of each item up to the end of the critical region, or in all regions."""
    unknown_of = dict[str, list[str]]()
    is_unknown = scores.is_read & ~scores.known
    for item, regions in zip(stimuli.items, stimuli.regions, strict=True):
        ends = [region.end for region in regions if critical in (None, region.name)]
        places = range(regions[0].first, ends[-1] if ends else regions[0].first)
        if unknown := [stimuli.words.words[place] for place in places if is_unknown[place]]:
            unknown_of.setdefault(item, []).extend(unknown)
    return {item: list(dict.fromkeys(words)) for item, words in unknown_of.items()}


def _uneven_regions(stimuli: Stimuli) -> list[str]:
    """Return a line if sentences have different numbers of numbered regions."""
    numbers = list(map(len, stimuli.regions))
    are_numbered = all(
        region.name == str(place) for regions in stimuli.regions for place, region in enumerate(regions, 1)
    )
    if len(set(numbers)) < 2 or not are_numbered or stimuli.are_words:
        return []
    fewest, most = (stimuli.regions[numbers.index(extreme(numbers))] for extreme in (min, max))
    place = stimuli.words.table.place
    return [
        f"sentences have different numbers of regions: {len(fewest)} in {place(fewest[0].row)}, {len(most)} in"
        f" {place(most[0].row)}. Regions with the same number are compared"
    ]


def _empty_regions(stimuli: Stimuli, critical: str | None) -> list[str]:
    """Return a line if the critical region has no words in some sentences."""
    empty = [
        _cell(stimuli, item, condition)
        for item, condition, regions in zip(stimuli.items, stimuli.conditions, stimuli.regions, strict=True)
        if any(region.name == critical and not region.text for region in regions)
    ]
    if not empty:
        return []
    return [f"region {critical} has no words in {_examples(empty, '; ')}, which are left out of the means"]


def _unread_regions(stimuli: Stimuli, model: str, scores: WordScores, critical: str | None) -> list[str]:
    """Return a line if a model reads no word of the critical region in some sentences."""
    unread = [
        f"{_cell(stimuli, item, condition)}, {region.text!r}"
        for item, condition, regions in zip(stimuli.items, stimuli.conditions, stimuli.regions, strict=True)
        for region in regions
        if region.name == critical and region.text and not scores.is_read[region.first : region.end].any()
    ]
    if not unread:
        return []
    return [
        f"{model}: reads nothing of region {critical} in {_examples(unread, '; ')}, which are left out of the means"
    ]


def _cell(stimuli: Stimuli, item: str, condition: str) -> str:
    return f"item {item}, condition {stimuli.label(condition)}"


def _examples(cells: Sequence[str], separator: str) -> str:
    """Return the first few of several, and if there are more, how many there are."""
    shown = separator.join(cells[:_EXAMPLES])
    return f"{shown}{separator}... ({len(cells):,} in all)" if len(cells) > _EXAMPLES else shown


def _uneven_conditions(stimuli: Stimuli) -> list[str]:
    """Return lines on items with several sentences of a condition, and on items without a condition."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for item, condition, regions in zip(stimuli.items, stimuli.conditions, stimuli.regions, strict=True):
        pairs.setdefault((item, condition), []).append(" ".join(region.text for region in regions))
    averaged = [_cell(stimuli, *pair) for pair, texts in pairs.items() if len(set(texts)) > 1]
    repeated = [_cell(stimuli, *pair) for pair, texts in pairs.items() if len(set(texts)) < len(texts)]
    lines = []
    if averaged:
        lines.append(f"several sentences are averaged: {_examples(averaged, '; ')}")
    if repeated:
        lines.append(f"the same sentence is in several rows: {_examples(repeated, '; ')}")

    return lines + _lacking_conditions(stimuli, pairs)


def _lacking_conditions(stimuli: Stimuli, pairs: Container[tuple[str, str]]) -> list[str]:
    """Return a line on each condition that items lack.

    Args:
        pairs: each item with each of its conditions.
    """
    # An item with one level of a factor between items does not lack the conditions of other levels.
    levels_of: dict[str, list[set[str]]] = {}
    for item, levels in zip(stimuli.items, stimuli.levels, strict=True):
        for item_levels, level in zip(levels_of.setdefault(item, [set() for _ in levels]), levels, strict=True):
            item_levels.add(level)
    between = [
        place
        for place in range(len(stimuli.factors))
        if all(len(item_levels[place]) == 1 for item_levels in levels_of.values())
    ]

    lines = []
    for condition, levels in stimuli.levels_by_condition.items():
        expected = [
            item
            for item, item_levels in levels_of.items()
            if all(levels[place] in item_levels[place] for place in between)
        ]
        lacking = [item for item in expected if (item, condition) not in pairs]
        if lacking:
            shown = ", ".join(lacking[:_EXAMPLES]) + (", ..." if len(lacking) > _EXAMPLES else "")
            lines.append(
                f"condition {stimuli.label(condition)}: missing in {amount(len(lacking), 'item')} ({shown}), which"
                f" {'is' if len(lacking) == 1 else 'are'} in neither the differences nor the contrasts"
            )
    return lines


def _alike(stimuli: Stimuli, scores: WordScores) -> list[str]:
    """Return the items with several sentences that differ as written, but not as the model reads them."""
    words, tokens = stimuli.words, scores.tokens
    written_as: dict[tuple[str, str], set[str]] = {}
    for item, (first, end) in zip(stimuli.items, words.spans(words.sentences), strict=True):
        read = " ".join(filter(None, tokens[first:end]))
        written_as.setdefault((item, read), set()).add(" ".join(words.words[first:end]))
    return list(dict.fromkeys(item for (item, _), written in written_as.items() if len(written) > 1))


def _differing(stimuli: Stimuli, scores: WordScores, item: str) -> str:
    """Return the first two different words of an item's sentences that a model reads in the same way."""
    words, tokens = stimuli.words, scores.tokens
    sentences = [
        (" ".join(filter(None, tokens[first:end])), words.words[first:end])
        for sentence_item, (first, end) in zip(stimuli.items, words.spans(words.sentences), strict=True)
        if sentence_item == item
    ]
    for (first_read, first_words), (second_read, second_words) in combinations(sentences, 2):
        if first_read == second_read and first_words != second_words:
            pairs = zip_longest(first_words, second_words, fillvalue="")
            return next(f"{word!r} and {other_word!r}" for word, other_word in pairs if word != other_word)
    raise AssertionError("no two sentences of the item are read in the same way")
