"""`serve`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.options import add_device, model_names
from syntaxlm.core.errors import InputError

DEFAULT_MODEL = "en"
PORT = 8000


def add_serve(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="open models in a browser: trees, surprisals, minimal pairs",
        description="Start a web server with a page on which sentences are parsed and scored, minimal pairs are"
        " compared and sentences are sampled, by one or more models. It also answers JSON requests under /api/."
        " Requests can only use the models given here. Stop it with Ctrl-C.",
        epilog="example: syntaxlm serve runs/prpn runs/pcfg --port 8080",
    )
    parser.add_input(
        "models", nargs="*", metavar="MODEL", type=Path,
        help=f"model folder, written by train; may be repeated. Default: {DEFAULT_MODEL}",
    )  # fmt: skip
    add_device(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="NAME",
        help="address to listen on; default: 127.0.0.1, only this machine; 0.0.0.0: all networks",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"port to listen on; default {PORT}; 0: any free port"
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="also answer requests for this host name, such as that of a proxy in front; may be repeated. localhost and"
        " addresses are always allowed",
    )  # fmt: skip
    parser.add_argument(
        "--max-words", type=int, default=100, metavar="N", help="maximum number of words of a sentence; default 100"
    )
    parser.add_argument(
        "--max-sentences", type=int, default=50, metavar="N",
        help="maximum number of sentences of a request; default 50",
    )  # fmt: skip
    parser.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> None:
    try:
        from syntaxlm.app.serve.app import create_app
        from syntaxlm.app.serve.server import Server, address_of, is_loopback, listen
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise InputError(f"serve needs the library {error.name}: pip install 'syntaxlm[serve]'") from None
    from syntaxlm.api.model import load
    from syntaxlm.app.serve.limits import Limits
    from syntaxlm.core.progress import error_console, status

    limits = Limits(max_words=options.max_words, max_sentences=options.max_sentences)
    folders = options.models or [Path(DEFAULT_MODEL)]
    names = model_names(folders)
    with listen(options.host, options.port) as bound:  # before the slow reading
        with status("reading models"):
            models = {name: load(folder, options.device or "cpu") for name, folder in zip(names, folders, strict=True)}
        app = create_app(models, limits, [options.host, *options.allow_host])

        def on_start() -> None:
            print(f"{', '.join(names)}: {address_of(bound)} (Ctrl-C stops)", flush=True)
            if not is_loopback(bound):
                error_console().print(
                    "Every machine that can reach this address can use the models; the server has no passwords.",
                    soft_wrap=True,
                )

        try:
            Server(app, on_start).run([bound])
        except KeyboardInterrupt:  # the usual end
            return
