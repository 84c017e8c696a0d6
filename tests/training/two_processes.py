"""Training in two processes. Each records the weights, the gradient and the random numbers of its steps.

torchrun starts this module as a program.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from syntaxlm.training import run
from syntaxlm.training.loop import GradientLoop
from syntaxlm.training.recipe import read_recipe

MODULE = "tests.training.two_processes"
LOST = "SYNTAXLM_TEST_LOST"  # the signal that one process gets where `stop` is negative; by default SIGKILL
ROOT = Path(__file__).parents[2]
Launcher = Callable[[list[str]], None]


def in_two_processes(
    tmp_path: Path, recipe: Path, folder: Path, stop: int = -1, launch: Launcher | None = None
) -> Path:
    """Trains in two processes. Returns a folder with what they recorded.

    stop: number of steps before SIGTERM, or, negative, before SIGKILL of one process; 0 to resume, -1 for no stop.
    launch: starts the processes; None: torchrun.
    """
    records = tmp_path / f"records-{folder.name}-{stop}"
    records.mkdir()
    (launch or torchrun)([str(recipe), str(folder), str(records), str(stop)])
    return records


def torchrun(arguments: list[str]) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "--module", MODULE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=_environment(), cwd=ROOT)
    assert done.returncode == 0, done.stderr


def forked(arguments: list[str], nodes: int = 1) -> None:
    """Starts two forks of this process, which has imported torch already, with the environment of torchrun.

    Not after autograd has used a GPU: a fork cannot use its threads.
    nodes: 2: each fork is on a node of its own.
    """
    codes = exit_codes(arguments, nodes)
    assert codes == [0, 0], f"exit codes {codes}"


def exit_codes(arguments: list[str], nodes: int) -> list[int]:
    """Like `forked`, but returns the exit code of each process; that of a killed one is negative.

    If the first one fails, the other is killed.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    children = [_fork(rank, port, arguments, nodes) for rank in (0, 1)]
    codes = []
    for child in children:
        if any(codes):
            os.kill(child, signal.SIGKILL)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return codes


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def _fork(rank: int, port: int, arguments: list[str], nodes: int) -> int:
    """Starts a process that trains; returns its id."""
    child = os.fork()
    if child:
        return child
    signal.alarm(240)
    node, local = (rank, 0) if nodes == 2 else (0, rank)
    sizes = {"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2 // nodes, "GROUP_WORLD_SIZE": nodes, "RANK": rank}
    place = {
        "LOCAL_RANK": local,
        "GROUP_RANK": node,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": "forks",
    }
    os.environ.update({name: str(value) for name, value in (sizes | place).items()})
    code = 1
    try:
        train(*arguments)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)  # without the cleaning up of the tests


def train(recipe: str, folder: str, records: str, stop: str) -> None:
    """Trains, or resumes where stop is 0, and records every step."""
    warnings.filterwarnings("error", message=".*broadcast_buffers")
    rank, lost = os.environ["RANK"], signal.Signals(int(os.environ.get(LOST, signal.SIGKILL)))
    step = GradientLoop._step

    def recording(loop: GradientLoop, batch: object) -> None:
        step(loop, batch)
        model = loop.task.model
        kept = [*model.parameters(), *loop.average.means.values()]
        weights = b"".join(p.detach().numpy().tobytes() for p in kept)
        with open(Path(records, f"weights-{rank}"), "a") as file:
            file.write(hashlib.sha256(weights).hexdigest() + "\n")
        if loop.log.trainer.steps == 1:
            torch.save({n: p.grad for n, p in model.named_parameters()}, Path(records, f"gradient-{rank}"))
        if stop != "-1" and loop.log.trainer.steps == abs(int(stop)) and rank == "1":
            os.kill(os.getpid(), signal.SIGTERM if int(stop) > 0 else lost)
        numbers = hashlib.sha256(torch.get_rng_state().numpy()).hexdigest()
        with open(Path(records, f"mask-{rank}"), "a") as file:
            file.write(f"{torch.initial_seed()} {numbers}\n")

    GradientLoop._step = recording
    if Path(folder, "recipe.yaml").exists() and stop == "0":
        run.resume(folder)
    else:
        run.train(read_recipe(recipe), folder)


if __name__ == "__main__":
    train(*sys.argv[1:])
