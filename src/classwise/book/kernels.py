"""Kernels of notebooks, forked from a process that has imported what pages need."""

import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import current_process, forkserver, get_context
from multiprocessing.context import ForkServerProcess
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

# What pages import and that takes long. No more may happen before the fork: threads, sockets and CUDA do not survive it.
IMPORTED = [
    *("ipykernel.kernelapp", "altair", "ipywidgets", "scipy.stats", "sklearn.datasets", "statsmodels.stats.multitest", "torch"),
    *("classwise.runs", "classwise.papers.registry", "classwise.papers.ledger", "classwise.charts.class_explorer"),
]


def _serve(arguments: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
    os.setsid()
    # The process that forks ends when all its clients have, and this kernel when that one has: it must not count as a client.
    os.close(forkserver._forkserver._forkserver_alive_fd)  # type: ignore[attr-defined]
    current_process().daemon = False  # else it could start no workers
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    from ipykernel.kernelapp import IPKernelApp

    # The kernel ends when its parent does, which is the process that it was forked from. ipykernel read the variable before.
    IPKernelApp.launch_instance([*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])


class _Kernel(ForkServerProcess):
    """A forked kernel as jupyter_client sees a process of subprocess.Popen."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int | None:
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid or 0, number)


class _Provisioner(LocalProvisioner):
    process: Any = None

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        get_context("forkserver").set_forkserver_preload(IMPORTED)
        self.cwd = kwargs.get("cwd") or os.getcwd()
        given = cmd[cmd.index("-f") :], kwargs["env"], str(self.cwd)
        self.process = _Kernel(target=_serve, args=given, daemon=True)
        # A process that is forked imports the script that called; one without a guard would run again, audits and all.
        main = vars(sys.modules["__main__"])
        hidden: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
        main.update(dict.fromkeys(hidden))
        try:
            self.process.start()
        finally:
            main.update(hidden)
        self.pid = self.pgid = self.process.pid
        return self.connection_info


class ForkedKernels(AsyncKernelManager):
    """Starts kernels by a fork."""

    async def _async_pre_start_kernel(self, **kw: Any) -> Any:
        named = {"kernel_id": self.kernel_id or "forked", "kernel_spec": self.kernel_spec}
        self.provisioner = self.provisioner or _Provisioner(**named, parent=self)
        return await super()._async_pre_start_kernel(**kw)
