"""What the process may use of its machine: limits of control groups on fake machines, resource limits on this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cipherblas._core as _core

GIB = 1 << 30
MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:    8388608 kB\n"
V2_MOUNT = "31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
CPU_MOUNT = "32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
MEMORY_MOUNT = "33 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


class Machine:
    """A folder that looks like the files of a machine; `root` is what the core is given."""

    def __init__(self, root: Path, groups: str, mounts: str) -> None:
        self.folder, self.root = root, str(root)
        self.write("proc/meminfo", MEMINFO)
        self.write("proc/self/cgroup", groups)
        self.write("proc/self/mountinfo", "24 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" + mounts)

    def write(self, path: str, text: str) -> None:
        """A file of the machine."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def group(self, folder: str, **files: object) -> None:
        """Files of a control group; a double underscore is a dot."""
        for name, text in files.items():
            self.write(f"sys/fs/cgroup/{folder}/{name.replace('__', '.')}", f"{text}\n")


def version_2(tmp_path: Path, group: str = "/user.slice/job.scope") -> Machine:
    return Machine(tmp_path, f"0::{group}\n", V2_MOUNT)


def test_a_machine_without_limits(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "0::/\n", V2_MOUNT)
    assert _core.cpu_quota(machine.root) is None
    assert _core.processors(machine.root) == len(os.sched_getaffinity(0))
    assert _core.total_memory(machine.root) == 16 * GIB
    assert _core.available_memory(machine.root) == 8 * GIB


def test_a_system_that_says_nothing(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert _core.cpu_quota(root) is None
    assert _core.total_memory(root) is None
    assert _core.available_memory(root) is None
    assert _core.processors(root) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("folder", ["", "user.slice", "user.slice/job.scope"])
def test_the_quota_of_every_folder_on_the_way_counts(tmp_path: Path, folder: str) -> None:
    machine = version_2(tmp_path)
    for above in ("user.slice", "user.slice/job.scope"):
        machine.group(above, cpu__max="max 100000")
    machine.group(folder, cpu__max="50000 100000")
    assert _core.cpu_quota(machine.root) == 0.5
    assert _core.processors(machine.root) == 1  # never none


def test_the_smallest_quota_holds(tmp_path: Path) -> None:
    machine = version_2(tmp_path)
    machine.group("user.slice", cpu__max="150000 100000")
    machine.group("user.slice/job.scope", cpu__max="400000 200000")
    assert _core.cpu_quota(machine.root) == 1.5


@pytest.mark.parametrize(("quota", "threads"), [(0.2, 1), (1.0, 1), (1.01, 2), (1.5, 2), (2.0, 2), (64.0, 2)])
def test_a_quota_is_rounded_up_to_threads(tmp_path: Path, quota: float, threads: int) -> None:
    machine = version_2(tmp_path)
    machine.group("user.slice/job.scope", cpu__max=f"{quota * 100000:.0f} 100000")
    usable = len(os.sched_getaffinity(0))
    expected = min(usable, threads) if quota <= 2 else usable
    assert _core.processors(machine.root) == expected


def test_a_quota_of_version_1(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "5:cpu,cpuacct:/docker/abc\n0::/\n", CPU_MOUNT)
    machine.group("cpu,cpuacct/docker/abc", cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000)
    assert _core.cpu_quota(machine.root) is None
    machine.group("cpu,cpuacct/docker", cpu__cfs_quota_us=25000, cpu__cfs_period_us=50000)
    assert _core.cpu_quota(machine.root) == 0.5


def test_a_container_sees_its_folder_as_the_mount_point(tmp_path: Path) -> None:
    mount = "33 24 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    machine = Machine(tmp_path, "4:memory:/docker/abc/inner\n", mount)
    machine.group("memory", memory__limit_in_bytes=2 * GIB, memory__usage_in_bytes=GIB)
    assert _core.available_memory(machine.root) == GIB
    machine.group("memory/inner", memory__limit_in_bytes=GIB, memory__usage_in_bytes=GIB // 2)
    assert _core.available_memory(machine.root) == GIB // 2
    assert _core.total_memory(machine.root) == GIB


def test_a_group_outside_of_the_namespace(tmp_path: Path) -> None:
    machine = version_2(tmp_path, "/../other")
    machine.group("", memory__max=GIB, memory__current=0)
    assert _core.total_memory(machine.root) == GIB


def test_a_mount_point_with_a_blank(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "0::/\n", r"31 24 0:27 / /my\040groups rw - cgroup2 cgroup2 rw" + "\n")
    machine.write("my groups/memory.max", f"{GIB}\n")
    assert _core.total_memory(machine.root) == GIB


@pytest.mark.parametrize("name", ["memory__max", "memory__high"])
def test_what_a_group_has_left_of_its_memory(tmp_path: Path, name: str) -> None:
    machine = version_2(tmp_path)
    machine.group("user.slice", memory__max="max", memory__current=5 * GIB)
    machine.group(
        "user.slice/job.scope",
        **{name: 3 * GIB},
        memory__current=2 * GIB,
        memory__stat=f"anon {GIB}\nfile {GIB}\ninactive_file {GIB // 2}\nactive_file {GIB // 2}",
    )
    assert _core.total_memory(machine.root) == 3 * GIB
    # Files that can be dropped are no use of memory.
    assert _core.available_memory(machine.root) == 3 * GIB // 2


def test_a_group_above_may_leave_less(tmp_path: Path) -> None:
    machine = version_2(tmp_path)
    machine.group("user.slice", memory__max=4 * GIB, memory__current=3 * GIB)
    machine.group("user.slice/job.scope", memory__max=2 * GIB, memory__current=GIB // 4)
    assert _core.total_memory(machine.root) == 2 * GIB
    assert _core.available_memory(machine.root) == GIB


def test_a_group_beyond_its_limit_leaves_nothing(tmp_path: Path) -> None:
    machine = version_2(tmp_path)
    machine.group("user.slice", memory__high=GIB, memory__current=2 * GIB)
    assert _core.available_memory(machine.root) == 0


def test_memory_of_version_1(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "9:name=systemd:/x\n4:memory:/job\n0::/\n", V2_MOUNT + MEMORY_MOUNT)
    machine.group("memory", memory__limit_in_bytes=(1 << 63) - 4096, memory__usage_in_bytes=9 * GIB)
    machine.group(
        "memory/job",
        memory__limit_in_bytes=GIB,
        memory__usage_in_bytes=GIB,
        memory__stat=f"inactive_file 1\ntotal_inactive_file {GIB // 4}",
    )
    assert _core.total_memory(machine.root) == GIB
    assert _core.available_memory(machine.root) == GIB // 4


def test_the_machine_may_have_less_than_a_group_allows(tmp_path: Path) -> None:
    machine = version_2(tmp_path)
    machine.group("user.slice/job.scope", memory__max=64 * GIB, memory__current=0)
    assert _core.total_memory(machine.root) == 16 * GIB
    assert _core.available_memory(machine.root) == 8 * GIB


def test_this_machine() -> None:
    available, total = _core.available_memory(), _core.total_memory()
    assert available is not None and total is not None
    assert 0 < available <= total
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert total <= physical
    assert 1 <= _core.processors() <= len(os.sched_getaffinity(0))


def in_a_process(code: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "CIPHERBLAS_THREADS"}
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**kept, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(
    "libasan" in Path("/proc/self/maps").read_text(),
    reason="the address sanitizer maps terabytes, which no limit of addresses leaves",
)
@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_resource_limits_count(name: str) -> None:
    code = f"""
import resource
import numpy as np
from cipherblas.common import errors, limits, memory
resource.setrlimit(resource.{name}, (3 << 30, 3 << 30))
before = limits.available_memory()
held = memory.aligned_empty((1 << 27,))  # 1 GiB
print(before, limits.available_memory())
try:
    memory.check_memory(4 << 30, "the test")
except errors.MemoryBudgetError:
    print("refused")
"""
    numbers, refused = in_a_process(code).splitlines()
    before, after = map(int, numbers.split())
    assert GIB < before < 3 * GIB
    assert abs(before - after - GIB) < 1 << 26
    assert refused == "refused"


def test_default_threads_follow_the_affinity() -> None:
    code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import cipherblas
print(cipherblas.threads())
"""
    assert in_a_process(code).strip() == "1"
    assert in_a_process(code, CIPHERBLAS_THREADS="3").strip() == "3"
