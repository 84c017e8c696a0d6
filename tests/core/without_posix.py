"""Runs commands in a process that lacks what only POSIX systems have; started by test_systems.

What Windows does not have is removed before the package is imported. The libraries that it uses are imported before,
because some look for the system then.
"""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import warnings

MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "syslog")
OF_OS = (
    "fork", "register_at_fork", "sched_getaffinity", "sysconf", "mkfifo", "getuid", "geteuid", "uname", "getpgid",
    "killpg", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_DIRECTORY", "statvfs", "getloadavg",
)  # fmt: skip
OF_SIGNAL = ("SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGALRM", "alarm")


def import_libraries() -> None:
    import cyclopts
    import filelock
    import pydantic
    import rich.console
    import torch

    sysconfig.get_config_vars()
    assert all((cyclopts.App, filelock.lock_descriptor, pydantic.TypeAdapter, rich.console.Console, torch.Tensor))


def main() -> int:
    """Run commands: the lines of standard input, with tabs between arguments."""
    sys.modules["fcntl"] = None  # before filelock is imported
    import_libraries()
    sys.modules.update(dict.fromkeys(MODULES))
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        for name in filter(module.__dict__.__contains__, names):
            delattr(module, name)
    sys.platform = "win32"
    # A file that is opened without an encoding has another one on each system.
    warnings.filterwarnings("error", category=EncodingWarning, module=r"syntaxlm\.")

    from syntaxlm.cli import main as command

    commands = os.fsdecode(sys.stdin.buffer.read()).splitlines()  # as the arguments of a command line
    return max([command(line.split("\t")) for line in commands])


if __name__ == "__main__":
    sys.exit(main())
