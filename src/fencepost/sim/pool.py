"""Many seeds, in one process or several, in the order in which they are done.

Each process runs one seed at a time and has a pipe of its own. If a process ends before its seed is
done (killed, out of memory, crashed), the pool raises WorkerDiedError with that seed at once.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, ForkProcess
from typing import Final

from fencepost.sim.run import Outcome, Plan, run_seed

END_WAIT_S: Final = 5.0
"""How long a process that was told to end may take before it is killed."""


class WorkerDiedError(Exception):
    """A process ended while it ran `seed`; the text says so, and how."""

    def __init__(self, seed: int, exit_code: int | None) -> None:
        super().__init__(f"seed {seed}: the process that ran it {_how_it_ended(exit_code)}")
        self.seed = seed


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was ended by signal {-exit_code} ({signal.strsignal(-exit_code)})"
    return f"ended with exit code {exit_code}"


def run_seeds(seeds: Iterable[int], plan: Plan, jobs: int = 1) -> Iterator[Outcome]:
    """The outcome of each seed. With several jobs, up to so many run at a time.

    Stopping to ask for more stops the processes, and so does one that ends before it is done:
    WorkerDiedError then.
    """
    if jobs <= 1:
        for seed in seeds:
            yield run_seed(seed, plan)
        return
    waiting = iter(seeds)
    workers: list[_Worker] = []
    try:
        for _, seed in zip(range(jobs), waiting, strict=False):
            workers.append(_Worker(plan, workers, seed))
        busy = {worker.pipe: worker for worker in workers}
        while busy:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                yield worker.outcome()
                following = next(waiting, None)
                if following is None:
                    del busy[worker.pipe]
                else:
                    worker.run(following)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process that runs one seed after the other."""

    def __init__(self, plan: Plan, others: list[_Worker], seed: int) -> None:
        context: ForkContext = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        # What is inherited of the others' pipes would keep these open when this process is gone.
        inherited = [self.pipe, *(other.pipe for other in others)]
        self._process: ForkProcess = context.Process(
            target=_work, args=(theirs, inherited, plan), daemon=True
        )
        self._process.start()
        theirs.close()
        self.run(seed)

    def run(self, seed: int) -> None:
        """Have it run this one next."""
        self._seed = seed
        try:
            self.pipe.send(seed)
        except OSError as error:
            raise self._died() from error

    def outcome(self) -> Outcome:
        """What came of it. WorkerDiedError."""
        try:
            found: Outcome = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        return found

    def _died(self) -> WorkerDiedError:
        self._process.join(END_WAIT_S)
        return WorkerDiedError(self._seed, self._process.exitcode)

    def end(self) -> None:
        """Stop it, whatever it does."""
        self.pipe.close()
        self._process.terminate()
        self._process.join(END_WAIT_S)
        self._process.kill()
        self._process.join()
        self._process.close()


def _work(pipe: Connection, inherited: list[Connection], plan: Plan) -> None:
    """What the process does, until the pool closes its end of the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool ends it
    for one in inherited:
        one.close()
    while True:
        try:
            seed = pipe.recv()
        except EOFError:
            return
        pipe.send(run_seed(seed, plan))
