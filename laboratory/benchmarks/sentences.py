"""How well running text is split into sentences.

    python -m laboratory.benchmarks.sentences FILE... [--json] [--errors N]

FILE: CoNLL-U, whose `# text` comments are the sentences and whose documents are those of `# newdoc` or, without it, of
the sentence ids (NAME-1, NAME-2, ...); or plain text with one sentence per line. --shuffle: for a text whose sentences
are sorted, in a random order instead.

The sentences of a document are joined by spaces, so nothing but words and punctuation shows where they end, and every
splitter splits the same text. A boundary is correct if the same letters are before it; ends of documents do not count.
- syntaxlm: `syntaxlm data sentences`, which learns abbreviations from the text that it splits.
- punkt: nltk's PunktSentenceTokenizer (Kiss & Strunk 2006), trained on the same text.
- rule: a sentence ends at . ? ! and closing quotation marks or brackets, before white space and a capital.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

from syntaxlm.core.files import to_json
from syntaxlm.core.text_files import content_suffix, read_whole_text
from syntaxlm.data.sentence_splitter import Splitter

SCHEMA_VERSION = 1
SEED = 0

Document = list[str]
Split = Callable[[str], Sequence[str]]

_ID = re.compile(r"# sent_id = (.*?)[-_]?\d+$")
_MARKED = re.compile(r"[.?!…][\"'”’»)\]]*$")
_RULE = re.compile(r"[.?!…][\"'”’»)\]]*(\s+)(?=[\"'“‘«(\[]*[A-Z])")


def read_documents(path: str | Path) -> list[Document]:
    """The sentences of each document of a file, as written."""
    lines = read_whole_text(path).splitlines()
    if content_suffix(path) != ".conllu":
        return [[line.strip() for line in lines if line.strip()]]
    documents: list[Document] = []
    has_marks = any(line.startswith("# newdoc") for line in lines)
    name = None
    for line in lines:
        sentence_id = _ID.match(line)
        if line.startswith("# newdoc") or (sentence_id and not has_marks and sentence_id[1] != name):
            documents.append([])
        if sentence_id:
            name = sentence_id[1]
        elif line.startswith("# text = "):
            documents[-1].append(line.removeprefix("# text = ").strip())
    return [document for document in documents if document]


@dataclass(frozen=True)
class Scores:
    """Boundaries inside documents. found: their number, of which `correct` are correct.

    recall_marked: of boundaries after . ? ! or …, and quotation marks or brackets behind it.
    """

    splitter: str
    precision: float
    recall: float
    f1: float
    recall_marked: float
    found: int
    correct: int


def score(name: str, split: Split, documents: Sequence[Document], errors: int = 0) -> Scores:
    """Scores of a splitter. errors: the number of wrong and of missed boundaries to print."""
    counts: Counter[str] = Counter()
    for document in documents:
        predicted, expected = split(" ".join(document)), boundaries(document)
        places = boundaries(predicted)
        both = places & expected
        after_mark = {
            place for place, sentence in zip(_ends(document), document[:-1], strict=False) if _MARKED.search(sentence)
        }
        counts.update(found=len(places), gold=len(expected), correct=len(both))
        counts.update(marked=len(after_mark), correct_marked=len(both & after_mark))
        for kind, sentences, others in (("wrong", predicted, expected), ("missed", document, places)):
            for place, (before, after) in zip(_ends(sentences), pairwise(sentences), strict=False):
                if place not in others and errors > 0 and (kind == "wrong" or place in after_mark):
                    print(f"{name} {kind}: {before[-40:]} | {after[:40]}")
                    errors -= 1
    found, gold, correct = counts["found"], counts["gold"], counts["correct"]
    f1, recall_marked = 2 * correct / max(1, found + gold), counts["correct_marked"] / max(1, counts["marked"])
    return Scores(name, correct / max(1, found), correct / max(1, gold), f1, recall_marked, found, correct)


def boundaries(sentences: Sequence[str]) -> set[int]:
    """The characters other than white space before the end of each sentence but the last."""
    return set(_ends(sentences)[:-1])


def _ends(sentences: Sequence[str]) -> list[int]:
    """The number of characters other than white space up to the end of each sentence."""
    return list(accumulate(len("".join(sentence.split())) for sentence in sentences))


def splitters(texts: Sequence[str]) -> dict[str, Split]:
    """The splitters by name; see the module."""
    trainer = PunktTrainer()
    for text in texts:
        trainer.train(text, finalize=False)
    trainer.finalize_training()
    punkt = PunktSentenceTokenizer(trainer.get_params())
    return {"syntaxlm": Splitter.learn([[text] for text in texts]), "punkt": punkt.tokenize, "rule": by_rule}


def by_rule(text: str) -> list[str]:
    places = [0, *(end.start(1) for end in _RULE.finditer(text)), len(text)]
    return [text[begin:end].strip() for begin, end in pairwise(places)]


def evaluate(path: str | Path, shuffle: bool = False, errors: int = 0) -> dict[str, object]:
    """Scores of all splitters on a file, for JSON."""
    documents = read_documents(path)
    if shuffle:
        for document in documents:
            random.Random(SEED).shuffle(document)
    texts = [" ".join(document) for document in documents]
    scores = [score(name, split, documents, errors) for name, split in splitters(texts).items()]
    sentences = sum(map(len, documents))
    return {
        "schema_version": SCHEMA_VERSION,
        "data": "/".join(Path(path).parts[-2:]),
        "protocol": "sentences of a document joined by spaces; abbreviations learnt from the text that is split",
        "order": f"shuffled, seed {SEED}" if shuffle else "of the file",
        "documents": len(documents),
        "sentences": sentences,
        "boundaries": sentences - len(documents),
        "marked_share": sum(bool(_MARKED.search(text)) for document in documents for text in document) / sentences,
        "splitters": list(map(asdict, scores)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--errors", type=int, default=0, metavar="N", help="print the first N errors of each splitter")
    options = parser.parse_args()
    for file in options.files:
        report = evaluate(file, options.shuffle, options.errors)
        if options.json:
            print(to_json(report))
            continue
        print(f"{report['data']}: {report['sentences']:,} sentences, {report['documents']:,} documents")
        for scores in report["splitters"]:  # type: ignore[attr-defined]
            row = "  {splitter:10} P {precision:.1%}  R {recall:.1%}  F1 {f1:.1%}  R after marks {recall_marked:.1%}"
            print(row.format(**scores))


if __name__ == "__main__":
    main()
