"""Model folders in repositories of the Hugging Face hub, through the library huggingface_hub (extra `hub`).

Only the files of a model folder, safetensors and JSON, and the model card are uploaded and downloaded; other files of a
repository are ignored. Downloads are kept in the cache of huggingface_hub, so a model also loads without a network once
it has been loaded. The environment variable HF_ENDPOINT names another hub.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import read_stored_text, write_text, written_together
from syntaxlm.core.progress import error_console, status
from syntaxlm.core.yaml_files import yaml_text
from syntaxlm.models.abilities import ParsesSentences, PredictsNextToken, SamplesSentences, ScoresTokens
from syntaxlm.storage.bundled import check_folder
from syntaxlm.storage.folder import (
    CONFIG,
    LABELS,
    STOP_WEIGHTS,
    STOPS,
    VOCABULARY,
    WEIGHTS,
    ModelBundle,
    read_model,
    structure_name,
)
from syntaxlm.storage.model_index import Result, index_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CARD = "README.md"
NOT_STATED = "Not stated."  # of a card, in place of data or a licence
SELF_DESCRIPTION = "A model of syntaxlm, a toolkit of language models that learn syntax."
NEEDED = (CONFIG, VOCABULARY, WEIGHTS)
MODEL_FILES = (*NEEDED, LABELS, STOPS, STOP_WEIGHTS)
FILES = (*MODEL_FILES, CARD)
LARGEST = 1 << 34  # bytes of a repository's model files: 16 GiB
_LOAD = re.compile(r'^(nlp = syntaxlm\.load\()"[^"\n]*"', re.MULTILINE)  # in the generated code of model cards
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def is_repository_name(name: str) -> bool:
    """Return whether a name has the form of a repository's name: "user/name"."""
    return _REPOSITORY.fullmatch(name) is not None


def check_repository_name(name: str) -> None:
    """Raise InputError for a name that does not have the form of a repository's name."""
    if not is_repository_name(name):
        raise InputError(f"{name}: not the name of a repository; expected user/name")


# ---- model cards: a README.md whose front matter the Hugging Face hub reads


@dataclass(frozen=True)
class CardFacts:
    """What only the user knows about a model.

    Attributes:
        licence: the licence of the model, an identifier of the hub such as "mit", "cc-by-4.0" or "other".
        language: code of its language, such as "en", or several.
        data: the training data and their terms, in Markdown.
        description: what the model is for, in Markdown.
        results: the results of evaluations, which the hub displays.
    """

    licence: str | None = None
    language: str | Sequence[str] | None = None
    data: str | None = None
    description: str | None = None
    results: Sequence[Result] = ()

    def __post_init__(self) -> None:
        if self.licence is not None and not _LICENCE.fullmatch(self.licence):
            raise InputError(
                f"licence: found {self.licence!r}; expected an identifier of the hub in lower case, such as mit,"
                " cc-by-4.0 or other"
            )

    def __bool__(self) -> bool:
        return any(value not in (None, ()) for value in vars(self).values())


def model_card(bundle: ModelBundle, name: str, facts: CardFacts, weight_bytes: int) -> str:
    """Return the card of a model as Markdown with a YAML front matter.

    Args:
        name: the name by which `syntaxlm.load` finds the model.
        weight_bytes: size of the weights.
    """
    settings = bundle.settings
    facts_of_model = {
        "model type": bundle.name,
        "parameters": f"{bundle.model.parameter_count:,}",
        "size of the weights": f"{weight_bytes / 2**20:,.2f} MiB",
        "vocabulary": f"{len(bundle.vocabulary):,} tokens",
        "structure": structure_name(bundle.model),
        "text in training": bundle.trained_on,
    }
    all_settings = {name: value for name, value in vars(settings.model).items() if name != "name" and name[0] != "_"}
    all_settings |= {f"normaliser.{name}": value for name, value in vars(settings.normaliser).items()}
    front = _front_matter(bundle, name, facts)
    package = "'syntaxlm[hub]'" if "/" in name else "syntaxlm"
    code = "\n".join(["```python", *_usage(bundle, name, front.get("language", ["en"])), "```"])
    sections = [
        f"---\n{yaml_text(front)}---\n",
        f"# {name.rpartition('/')[2]}\n",
        *([] if facts.description is None else [facts.description.strip() + "\n"]),
        SELF_DESCRIPTION + "\n",
        "## How to use\n",
        f"Install syntaxlm: `pip install {package}`. Then:\n\n{code}\n",
        "## Model\n",
        _table(facts_of_model),
        "## Settings\n",
        _table(all_settings),
        "## Training data\n",
        (facts.data or NOT_STATED).strip() + "\n",
        "## Licence\n",
        (facts.licence or NOT_STATED) + "\n",
    ]
    return "\n".join(sections)


def _front_matter(bundle: ModelBundle, name: str, facts: CardFacts) -> dict[str, Any]:
    """Return what the hub reads of a card."""
    front: dict[str, Any] = {"library_name": "syntaxlm", "tags": ["syntaxlm", bundle.name, "syntax"]}
    if facts.licence is not None:
        front["license"] = facts.licence
    if facts.language is not None:
        front["language"] = [facts.language] if isinstance(facts.language, str) else list(facts.language)
    if facts.results:
        front["model-index"] = index_of(name.rpartition("/")[2], facts.results)
    return front


def _usage(bundle: ModelBundle, name: str, languages: Sequence[str]) -> list[str]:
    """Return the lines of a program that uses a model."""
    text = '"The cat sleeps."'
    if bundle.normaliser.units == "tags":
        text = '"the_DT cat_NN sleeps_VBZ"'
    elif list(languages) != ["en"]:
        text = '"A sentence in the language of the model."'
    lines = ["import syntaxlm", "", f'nlp = syntaxlm.load("{name}")']
    if isinstance(bundle.model, ParsesSentences):
        lines.append(f"nlp.parse({text}).tree.pretty_print()")
    if isinstance(bundle.model, ScoresTokens) and bundle.model.reads != "trees":
        lines.append(f"print([(word.word, word.surprisal) for word in nlp.surprisal({text})])")
    if isinstance(bundle.model, PredictsNextToken | SamplesSentences):
        lines.append("print(nlp.generate(3, seed=1))")
    return lines


def write_card(folder: Path, bundle: ModelBundle, name: str, facts: CardFacts, own: Path | None = None) -> None:
    """Write the card of a model folder, generated if there are facts.

    Without facts, a card in the folder is kept. If there is none, the card of the folder `own`, from which the model
    was read, is copied, or a card is generated.

    Args:
        name: see `model_card`.
    """
    if not facts and (folder / CARD).exists():
        return
    if not facts and own is not None and has_card(own):
        text = _LOAD.sub(lambda call: f'{call[1]}"{name}"', read_stored_text(own / CARD))
    else:
        text = model_card(bundle, name, facts, (folder / WEIGHTS).stat().st_size)
    write_text(text, folder / CARD, stored=True)


def has_card(folder: Path | None) -> bool:
    """Return whether a model folder has a card."""
    return folder is not None and (folder / CARD).exists()


def _table(values: Mapping[str, Any]) -> str:
    cells = {name: str(value).replace("|", r"\|") for name, value in values.items()}
    return "| | |\n|---|---|\n" + "".join(f"| {name} | {cell and f'`{cell}`'} |\n" for name, cell in cells.items())


# ---- repositories


def read_repository(name: str, revision: str | None = None, token: str | None = None) -> ModelBundle:
    """Read a model from a repository of the hub, or from the cache if the hub cannot be reached.

    Args:
        revision: a branch, tag or commit; None: the main branch.
        token: the token of the user, for private repositories; None: that of the environment variable HF_TOKEN or of
            `hf auth login`.

    Raises:
        InputError: for a repository that cannot be read or does not contain a model, and if huggingface_hub is missing.
    """
    snapshot = fetch(name, revision, token)
    try:
        return read_model(snapshot)
    except InputError as error:
        raise InputError(str(error).replace(str(snapshot), name)) from error


def fetch(name: str, revision: str | None = None, token: str | None = None) -> Path:
    """Download the files of a repository to the cache. Returns the folder, whose files are links into the cache.

    Parameters and errors: see `read_repository`.
    """
    api = _api(token)
    wanted: dict[str, Any] = {"repo_id": name, "revision": revision, "allow_patterns": list(FILES)}
    with _reporting(name, revision, "download"), status(f"downloading {name}"):
        from huggingface_hub.errors import HfHubHTTPError, HTTPError, OfflineModeIsEnabled

        try:
            _check(name, api.model_info(name, revision=revision, files_metadata=True))
        except HfHubHTTPError as error:
            if error.response.status_code < 500:  # the hub's answer, not a failure
                raise
            return Path(api.snapshot_download(local_files_only=True, **wanted))
        except (OfflineModeIsEnabled, HTTPError) as error:
            try:
                return Path(api.snapshot_download(local_files_only=True, **wanted))
            except FileNotFoundError:
                raise error from None
        return Path(api.snapshot_download(**wanted))


def download(name: str, folder: Path, revision: str | None = None, token: str | None = None) -> None:
    """Download a repository as a model folder.

    Parameters and errors: see `read_repository`.
    """
    snapshot = fetch(name, revision, token)
    with written_together(folder) as temporary:
        for file in FILES:
            if (snapshot / file).exists():
                shutil.copyfile(snapshot / file, temporary / file)  # not a link: model folders contain regular files


def upload(
    folder: Path,
    name: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    token: str | None = None,
    message: str | None = None,
    keep_card: bool = False,
) -> str:
    """Upload a model folder in one commit. Returns the address of the repository, which is created if necessary.

    Args:
        private: whether a new repository is private; None: as set in the user's or organisation's account.
        revision: a branch, which is created if necessary; None: the main branch.
        message: the message of the commit.
        keep_card: whether a card that the repository already has is kept.
        token: see `read_repository`.

    Raises:
        InputError: if the folder is not a model folder, and if the hub refuses it or cannot be reached.
    """
    check_folder(folder)
    if missing := [file for file in NEEDED if not (folder / file).is_file()]:
        raise InputError(f"{folder}: {missing[0]} is missing; expected a complete model folder")
    api = _api(token)
    with _reporting(name, revision, "upload"), status(f"uploading {name}"):
        address = api.create_repo(name, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(name, branch=revision, exist_ok=True)
        kept = keep_card and api.file_exists(name, CARD, revision=revision)
        api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=list(MODEL_FILES if kept else FILES),
            revision=revision,
            commit_message=message or "Upload model with syntaxlm",
        )
    return str(address)


def _api(token: str | None) -> HfApi:
    try:
        from huggingface_hub import HfApi
    except ModuleNotFoundError as error:
        if error.name != "huggingface_hub":  # installed, but broken
            raise
        raise InputError(
            "the Hugging Face hub needs the library huggingface_hub, which is not installed. Install it with: pip"
            " install 'syntaxlm[hub]'"
        ) from None
    return HfApi(
        endpoint=os.environ.get("HF_ENDPOINT") or None,  # the library reads it only when it is imported
        token=token,
        library_name="syntaxlm",
    )


def _check(name: str, info: Any) -> None:
    """Raise InputError for a repository that does not contain a model, or one that is too large."""
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    if missing := [file for file in NEEDED if file not in sizes]:
        advice = (
            f". It has weights of a transformers model; to score text with it, load hf:{name}"
            if "model.safetensors" in sizes and CONFIG in sizes
            else f"; expected {', '.join(NEEDED)}, as save_pretrained and push_to_hub write them"
        )
        raise InputError(f"{name}: this repository is not a syntaxlm model: {missing[0]} is missing{advice}")
    size = sum(sizes.get(file, 0) for file in FILES)
    if size > LARGEST:
        raise InputError(f"{name}: found {size:,} bytes of model files; expected at most {LARGEST:,}")


@contextmanager
def _reporting(name: str, revision: str | None, action: Literal["download", "upload"]) -> Iterator[None]:
    """Raise the library's errors as InputError. Its progress bars are shown on a terminal only."""
    from huggingface_hub import errors
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    console = error_console()
    hide = (console.quiet or not console.is_terminal) and not are_progress_bars_disabled()
    if hide:
        disable_progress_bars()
    try:
        yield
    except InputError:
        raise
    except errors.GatedRepoError:
        raise InputError(
            f"{name}: access to this repository must be requested on its page; then log in: hf auth login"
        ) from None
    except errors.RepositoryNotFoundError:
        raise InputError(
            f"{name}: no such folder here, and the Hugging Face hub has no repository of this name that you may read."
            " Check the name; for a private repository, log in (hf auth login) or set HF_TOKEN"
        ) from None
    except errors.RevisionNotFoundError:
        raise InputError(f"{name}: no such revision: {revision}; expected a branch, tag or commit") from None
    except errors.HFValidationError as error:
        raise InputError(f"{name}: not the name of a repository; expected user/name: {error}") from None
    except errors.HfHubHTTPError as error:
        code = error.response.status_code
        advice = ". Log in (hf auth login), or check the token" if code in (401, 403) else ""
        raise InputError(f"{name}: the Hugging Face hub answered {code}: {_reason(error)}{advice}") from None
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError, errors.HTTPError) as error:
        raise InputError(
            f"{name}: no such folder here; the Hugging Face hub cannot be reached, and the model is not in its cache:"
            f" {_reason(error)}"
        ) from None
    except (OSError, ValueError, RuntimeError) as error:  # such as a full disk, or a card that the hub does not accept
        raise InputError(f"{name}: the {action} failed: {' '.join(str(error).split())}") from error
    finally:
        if hide:
            enable_progress_bars()


def _reason(error: Exception) -> str:
    """Return the first line of the message of an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
