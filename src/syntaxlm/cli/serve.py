"""`serve`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from syntaxlm.cli.options import Device, by_distinct_names
from syntaxlm.cli.output import print_note
from syntaxlm.core.declarations import Argument, Bounds, Count, Name, Needs, Shown
from syntaxlm.core.errors import InputError, escaped
from syntaxlm.core.progress import status
from syntaxlm.storage.bundled import check_folder, find_model

if TYPE_CHECKING:
    from fastapi import FastAPI

DEFAULT_MODELS = Path("en"), Path("en-fast")


def serve(
    models: Annotated[Sequence[Path], Argument("MODEL"), Needs("a model folder")] = (),
    device: Device | None = None,
    host: Name = "127.0.0.1",
    port: Annotated[int, Bounds(ge=0, le=65_535), Shown("N")] = 8000,
    allow_host: Annotated[Sequence[str], Shown("NAME")] = (),
    max_words: Count = 100,
    max_sentences: Count = 50,
) -> int:
    """Open models in a browser: trees, surprisals, minimal pairs.

    Start a web server with a page on which sentences are parsed and scored, minimal pairs are compared and sentences
    are sampled, by one or more models. It also answers JSON requests under /api/. Requests can only use the models
    given here. Stop it with Ctrl-C.

    Args:
        models: model folder, written by train; may be repeated. Default: en and en-fast
        host: address to listen on; default: 127.0.0.1, only this machine; 0.0.0.0: all networks
        port: port to listen on; default 8000; 0: any free port
        allow_host: also answer requests for this host name, such as that of a proxy in front; may be repeated.
            localhost and addresses are always allowed
        max_words: maximum number of words of a sentence
        max_sentences: maximum number of sentences of a request

    Examples:
        syntaxlm serve runs/prpn runs/pcfg --port 8080
    """
    for library in ("fastapi", "starlette", "uvicorn"):
        if find_spec(library) is None:
            raise InputError(f"serve needs the library {library}: pip install 'syntaxlm[serve]'")
    from syntaxlm.serve.limits import Limits
    from syntaxlm.serve.server import Server, address_of, is_loopback, listen
    from syntaxlm.serve.site import Site

    limits = Limits(max_words=max_words, max_sentences=max_sentences)
    folders = by_distinct_names(models or DEFAULT_MODELS)
    with suppress(OSError):  # reported below, as any other fault of a folder
        for folder in map(find_model, folders.values()):
            if not folder.is_dir():
                check_folder(folder)

    def load_interface() -> FastAPI:
        from syntaxlm.api.model import load
        from syntaxlm.serve.app import create_interface

        return create_interface({name: load(folder, device or "cpu") for name, folder in folders.items()}, limits)

    site = Site(load_interface, limits, [host, *allow_host])
    with listen(host, port) as bound, ExitStack() as waiting:
        print(escaped(f"{', '.join(folders)}: {address_of(bound)} (Ctrl-C stops)"), flush=True)
        if not is_loopback(bound):
            print_note("Every machine that can reach this address can use the models; the server has no passwords.")
        waiting.enter_context(status("reading models"))

        def on_start() -> None:
            waiting.close()
            print("The models are ready.", flush=True)

        code = 0
        try:
            Server(site, on_start).run([bound])
        except KeyboardInterrupt:
            if not site.is_ready:  # afterwards, it is the usual end
                code = 128 + signal.SIGINT
                print("syntaxlm: interrupted", file=sys.stderr)
        except SystemExit as end:  # another signal
            code = cast(int, end.code)
    if site.is_busy:  # reading models or a step of a large request, which Python would wait for, perhaps minutes
        sys.stdout.flush()
        os._exit(code)
    return code
