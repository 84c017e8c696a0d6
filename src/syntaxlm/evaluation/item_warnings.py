"""Lines on what is doubtful about the surprisals of items: regions and conditions that are missing, unknown words, and
sentences that a model reads alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, zip_longest

from syntaxlm.core.errors import amount
from syntaxlm.data.stimuli import Stimuli
from syntaxlm.scoring.marks import remark_on_marks
from syntaxlm.scoring.word_table import WordScores

_EXAMPLES = 5  # items in a line


def warnings_of(stimuli: Stimuli, scores: Mapping[str, WordScores], critical: str | None) -> list[str]:
    """Return lines on the regions and conditions of sentences, and on what models do not know or read.

    Args:
        scores: the scores of each model, by name.
        critical: name of the region that the question is about; None for all.
    """
    items = len(dict.fromkeys(stimuli.items))
    lines = [*_uneven_regions(stimuli), *_empty_regions(stimuli, critical), *_uneven_conditions(stimuli)]
    for model, of_model in scores.items():
        if unknown := unknown_words(stimuli, of_model, critical):
            place = "" if critical is None else f" in region {critical} or before it"
            examples = [f"item {item}: {', '.join(words)}" for item, words in list(unknown.items())[:_EXAMPLES]]
            more = "; ..." if len(unknown) > _EXAMPLES else ""
            lines.append(
                f"{model}: unknown words{place} in {len(unknown):,} of {items:,} items ({len(unknown) / items:.0%}):"
                f" {'; '.join(examples)}{more}. The surprisal of an unknown word is not informative, and the surprisals"
                " of later words depend on the word"
            )
        if alike := _alike(stimuli, of_model):
            lines.append(
                f"{model}: cannot distinguish sentences of {len(alike):,} of {items:,} items, which differ only in"
                f" what it does not read or know, such as {_differing(stimuli, of_model, alike[0])} in item {alike[0]}"
            )
    return lines + remark_on_marks({model: of_model.bits_of_marks for model, of_model in scores.items()})


def unknown_words(stimuli: Stimuli, scores: WordScores, critical: str | None) -> dict[str, list[str]]:
    """Return the unknown words of each item up to the end of the critical region, or in all regions."""
    found = dict[str, list[str]]()
    is_unknown = scores.is_read & ~scores.known
    for item, regions in zip(stimuli.items, stimuli.regions, strict=True):
        ends = [region.end for region in regions if critical in (None, region.name)]
        places = range(regions[0].first, ends[-1] if ends else regions[0].first)
        if unknown := [stimuli.words.words[place] for place in places if is_unknown[place]]:
            found.setdefault(item, []).extend(unknown)
    return {item: list(dict.fromkeys(words)) for item, words in found.items()}


def _uneven_regions(stimuli: Stimuli) -> list[str]:
    """Return a line if sentences have different numbers of numbered regions."""
    numbers = list(map(len, stimuli.regions))
    are_numbered = all(region.name == str(place) for one in stimuli.regions for place, region in enumerate(one, 1))
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
    return (
        [f"region {critical} has no words in {_examples(empty, '; ')}, which are left out of the means"]
        if empty
        else []
    )


def _cell(stimuli: Stimuli, item: str, condition: str) -> str:
    return f"item {item}, condition {stimuli.label(condition)}"


def _examples(found: Sequence[str], separator: str) -> str:
    """Return the first few of what was found, and if there are more, how many there are."""
    shown = separator.join(found[:_EXAMPLES])
    return f"{shown}{separator}... ({len(found):,} in all)" if len(found) > _EXAMPLES else shown


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

    # An item with one level of a factor between items does not lack the conditions of other levels.
    levels_of: dict[str, list[set[str]]] = {}
    for item, levels in zip(stimuli.items, stimuli.levels, strict=True):
        for own, level in zip(levels_of.setdefault(item, [set() for _ in levels]), levels, strict=True):
            own.add(level)
    between = [
        place for place in range(len(stimuli.factors)) if all(len(own[place]) == 1 for own in levels_of.values())
    ]
    for one, levels in stimuli.levels_by_condition.items():
        expected = [item for item, own in levels_of.items() if all(levels[place] in own[place] for place in between)]
        lacking = [item for item in expected if (item, one) not in pairs]
        if lacking:
            shown = ", ".join(lacking[:_EXAMPLES]) + (", ..." if len(lacking) > _EXAMPLES else "")
            lines.append(
                f"condition {stimuli.label(one)}: missing in {amount(len(lacking), 'item')} ({shown}), which"
                f" {'is' if len(lacking) == 1 else 'are'} in neither the differences nor the contrasts"
            )
    return lines


def _alike(stimuli: Stimuli, scores: WordScores) -> list[str]:
    """Return the items with several sentences that differ as written, but not as the model reads them."""
    words, tokens = stimuli.words, scores.tokens
    found: dict[tuple[str, str], set[str]] = {}
    for item, (first, end) in zip(stimuli.items, words.spans(words.sentences), strict=True):
        read = " ".join(filter(None, tokens[first:end]))
        found.setdefault((item, read), set()).add(" ".join(words.words[first:end]))
    return list(dict.fromkeys(item for (item, _), written in found.items() if len(written) > 1))


def _differing(stimuli: Stimuli, scores: WordScores, item: str) -> str:
    """Return the first two different words of an item's sentences that a model reads in the same way."""
    words, tokens = stimuli.words, scores.tokens
    sentences = [
        (" ".join(filter(None, tokens[first:end])), words.words[first:end])
        for own, (first, end) in zip(stimuli.items, words.spans(words.sentences), strict=True)
        if own == item
    ]
    for (read, one), (other_read, other) in combinations(sentences, 2):
        if read == other_read and one != other:
            pairs = zip_longest(one, other, fillvalue="")
            return next(f"{first!r} and {second!r}" for first, second in pairs if first != second)
    raise AssertionError("no two sentences of the item are read in the same way")
