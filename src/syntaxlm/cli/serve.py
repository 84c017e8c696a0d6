"""`serve`."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from syntaxlm.cli.options import Device, by_distinct_names
from syntaxlm.cli.output import print_note
from syntaxlm.core.declarations import Argument, Bounds, Count, Name, Needs, Shown
from syntaxlm.core.errors import InputError, InputWarning, escaped
from syntaxlm.core.progress import status
from syntaxlm.core.threads import core_count
from syntaxlm.storage.bundled import check_folder, find_model

if TYPE_CHECKING:
    from fastapi import FastAPI

DEFAULT_MODELS = Path("en"), Path("en-fast")
KEPT_KERNELS = (
    64  # of torch's library oneDNN, which compiles one for each shape; 1,024 by default, about a megabyte each
)


def serve(
    models: Annotated[Sequence[Path], Argument("MODEL"), Needs("a model folder")] = (),
    device: Device | None = None,
    host: Name = "127.0.0.1",
    port: Annotated[int, Bounds(ge=0, le=65_535), Shown("N")] = 8000,
    allow_host: Annotated[Sequence[str], Shown("NAME")] = (),
    max_words: Count = 100,
    max_sentences: Count = 50,
) -> int:
    """Open models in a browser, to parse and score sentences and compare minimal pairs.

    The command starts a web server with a page for sentences, minimal pairs and samples of one or more models. The
    server also answers JSON requests under `/api/`. Requests can only use the models that are named here. Ctrl-C stops
    the server.

    Args:
        models: Model folders that `train` wrote, or names of bundled models. Default: `en` and `en-fast`.
        host: Listen on this address. `127.0.0.1` (default) serves only this machine, and `0.0.0.0` serves all networks.
        port: Listen on this port, where 0 stands for any free port.
        allow_host: Answer requests for this host name, too, such as the name of a proxy. `localhost` and addresses are
            always allowed.
        max_words: Refuse sentences of more than N words.
        max_sentences: Refuse requests of more than N sentences.

    Examples:
        syntaxlm serve runs/prpn runs/pcfg --port 8080
    """
    for library in ("fastapi", "starlette", "uvicorn"):
        if find_spec(library) is None:
            raise InputError(
                f"serve needs the library {library}, which is not installed. Install it with: pip install"
                " 'syntaxlm[serve]'"
            )
    from syntaxlm.serve.limits import Limits
    from syntaxlm.serve.server import Server, address_of, is_loopback, listen
    from syntaxlm.serve.site import Site

    limits = Limits(max_words=max_words, max_sentences=max_sentences)
    folders = by_distinct_names(models or DEFAULT_MODELS)
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KEPT_KERNELS))  # read by torch at its first product
    # Each model has a thread of its own. Threads that share a core would wait for each other. Read when torch is
    # imported.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, core_count() // len(folders))))
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
            print_note(
                "Every machine that can reach this address can use the models, because the server has no passwords."
            )
        waiting.enter_context(status("reading models"))

        def on_start() -> None:
            waiting.close()
            warnings.simplefilter("ignore", InputWarning)  # about the texts of requests, which are not logged
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
