"""A command on several ranks: `mpiexec` starts one process for each, which computes in a child of its own.

The child is what memory goes to and what a killer of processes finds; its parent says which rank ended and how, and
ends too, so that the launcher ends all others. The child ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import cipherblas._core as _core
from cipherblas.cli.guard import say
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.mpi import MpiCommunicator, ranks_here, ranks_launched

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")  # of the environment
PR_SET_PDEATHSIG = 1


@contextmanager
def ranks(quiet: bool) -> Iterator[Communicator | None]:
    """This process's end of the messages, where mpiexec started several; None where it is alone.

    Whatever ends a rank in the block is told to all others.
    """
    if ranks_launched() < 2:
        yield None
        return
    _compute_in_a_child(quiet)
    communicator = MpiCommunicator()
    try:
        yield communicator
    except BaseException as error:
        communicator.failed(error)
        raise


def threads_of_rank() -> int:
    """Threads of a rank that shares this machine's processors with others."""
    return max(1, int(_core.processors()) // ranks_here())


def _compute_in_a_child(quiet: bool) -> None:
    """Return in the child; the parent waits for it, and ends as it does."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended meanwhile
            os._exit(1)
        return

    def forward(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "?")
    where = f"rank {rank} of {ranks_launched()} (process {child} on {socket.gethostname()})"
    if not quiet:
        say(where)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        name = signal.Signals(-code).name
        hint = ", as the system does where memory is short" if -code == signal.SIGKILL else ""
        say(f"error: {where} was ended by {name}{hint}")
        sys.stderr.flush()
        os.kill(
            os.getpid(), signal.SIGKILL
        )  # an exit code alone would let the others wait, before MPI has begun
    sys.stderr.flush()
    os._exit(code)
