# SPDX-License-Identifier: Apache-2.0
"""The suites: test files, place, needs, and run.

A test file belongs to the suite with the longest matching folder or file. Times are of a warm run on two cores; they only decide
the order.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.jobs import Job

REPOSITORY = Path(__file__).resolve().parents[2]


class Run(enum.IntEnum):
    """The runs. Each includes the previous one."""

    CHECK = 1
    TEST = 2
    LONG = 3


@dataclass(frozen=True)
class Suite:
    """A suite: either `command`, or test files of pytest."""

    name: str
    shows: str
    run: Run = Run.TEST
    command: Sequence[str] = ()
    files: Sequence[str] = ()
    """Folders and files of the suite, relative to the repository."""
    again: Sequence[str] = ()
    """Folders and files of other suites that it repeats in another place."""
    guest: bool = False
    """Whether it runs in a guest with the real OpenZFS module; otherwise natively, in a private network."""
    network: bool = False
    """Natively in the machine's network, because packages come from a registry."""
    workers: int = 1
    """Number of pytest processes."""
    needs: Sequence[str] = ()
    """Builds that it needs."""
    covers: Sequence[str] = ()
    """Folders whose changes it covers, in addition to its files (`tests/run changed`)."""
    processors: float = 1
    seconds: float = 30
    environment: Mapping[str, str] = field(default_factory=dict)


TARGET, FSAL, CONSOLE, KERNEL = "build-target", "build-ganesha-fsal", "build-console", "build-kernel"
PACKAGES = "build-repository"
MACHINE, IMAGE = "build-machine", "build-image"
SCHEMATHESIS, LIBISCSI, FALLBACK = "build-schemathesis", "build-newest-libiscsi", "build-fallback-kernel"
OPENZFS_2_4 = "build-kernel-2.4"

BUILDS = (
    Job(KERNEL, ["packaging/build-kernel"], seconds=400),
    Job(TARGET, ["packaging/build-target"], seconds=100),
    Job(FSAL, ["packaging/build-ganesha-fsal"], seconds=60),
    Job(CONSOLE, ["packaging/build-console"], seconds=60),
    Job(PACKAGES, ["packaging/build-repository"], [TARGET, FSAL, CONSOLE], seconds=40),
    Job(MACHINE, ["packaging/uml/machine-image"], [KERNEL], seconds=150),
    Job(IMAGE, ["packaging/build-image"], [PACKAGES], seconds=1200),
    Job(SCHEMATHESIS, ["tests/environment/schemathesis"], seconds=30, processors=0.5),
    Job(LIBISCSI, ["tests/conformance/newest"], seconds=60),
    Job(FALLBACK, ["packaging/build-kernel"], seconds=400, environment={"UML_FALLBACK": "1"}),
    Job(OPENZFS_2_4, ["packaging/build-kernel"], seconds=400, environment={"ZVAAI_ZFS": "2.4"}),
)

APPLIANCE = ("appliance", "tests/simulators", "packaging/systemd", "packaging/dbus", "packaging/zed")
BLOCK = ("zvol_target", "packaging/dkms")
NFS = ("ganesha_fsal", "packaging/ganesha")

CHECKS = (
    Suite("lint-python", "mypy, ruff", Run.CHECK, ["tests/lint", "python"], covers=["appliance", "tests", "packaging"]),
    Suite("lint-rust", "rustfmt, clippy, imports between crates", Run.CHECK, ["tests/lint", "rust"], covers=["zvol_target"]),
    Suite("lint-text", "short sentences, agreed words", Run.CHECK, ["tests/lint", "text"], covers=["docs", "README.md"]),
    Suite("lint-shell", "shellcheck", Run.CHECK, ["tests/lint", "shell"], covers=["packaging", "tests"], seconds=10),
    Suite(
        "console",
        "types, unit and component tests, eslint, prettier",
        Run.CHECK,
        ["packaging/build-console", "check"],
        covers=["ui", "appliance/api", "appliance/gateway"],
        seconds=40,
    ),
    Suite("rust", "unit and property tests", Run.CHECK, ["packaging/build-target", "check"], covers=["zvol_target"], seconds=90),
    Suite("fsal", "unit and property tests", Run.CHECK, ["packaging/build-ganesha-fsal", "check"], covers=NFS, seconds=15),
    Suite(
        "appliance",
        "unit and property tests",
        Run.CHECK,
        files=["appliance"],
        covers=["tests/simulators"],
        workers=2,
        seconds=100,
        processors=1.4,
    ),
)

NATIVE = (
    Suite(
        "target",
        "the target on files, with iSCSI clients that nobody here wrote and with our own",
        files=["tests/integration/target"],
        needs=[TARGET],
        covers=["zvol_target"],
        seconds=90,
        processors=0.7,
    ),
    Suite(
        "conformance",
        "libiscsi's suite, held to docs/conformance.md",
        files=["tests/conformance"],
        needs=[TARGET],
        covers=["zvol_target", "docs/conformance.md"],
        seconds=40,
    ),
    Suite(
        "processes",
        "the appliance's processes with the real target: kills, secrets, its API by schemathesis",
        files=["tests/integration/appliance"],
        needs=[TARGET, SCHEMATHESIS],
        covers=[*APPLIANCE, "zvol_target"],
        seconds=270,
        processors=0.7,
    ),
    Suite(
        "nfs",
        "the NFS server and its file operations, on XFS with reflink",
        files=["tests/integration/nfs", "tests/integration/files"],
        needs=[FSAL, TARGET],
        covers=[*NFS, "appliance/dataplane"],
        seconds=45,
        processors=0.7,
    ),
    Suite(
        "browser",
        "the console in a browser",
        files=["tests/browser"],
        needs=[TARGET, CONSOLE],
        covers=["ui", "appliance/api", "appliance/gateway"],
        seconds=330,
        processors=0.7,
    ),
    Suite(
        "environment",
        "preflight, units, man page, installation, the list of suites",
        files=["tests/environment"],
        needs=[TARGET, FSAL],
        covers=["packaging", "tests/runner", "ganesha_fsal/client", *APPLIANCE],
        seconds=40,
    ),
)

BARE = (
    Suite(
        "bare-debian",
        "a fresh Debian 13 finds every package; with --long the demo on it",
        files=["tests/environment/test_bare_debian.py"],
        network=True,
        covers=["packaging/rootfs", "packaging/preflight"],
        seconds=40,
        processors=0.7,
    ),
)

PACKAGED = (
    Suite(
        "packages",
        "the Debian packages and their repository; with --long their installation on a fresh Debian 13",
        files=["tests/environment/test_packages.py"],
        network=True,
        needs=[TARGET, FSAL, CONSOLE, PACKAGES],
        covers=["packaging", "appliance"],
        seconds=20,
        processors=0.7,
    ),
)

ON_ZFS = (
    Suite(
        "zvols",
        "the target on zvols, with the kernel's initiator",
        files=["tests/integration/kernel"],
        guest=True,
        needs=[TARGET, KERNEL],
        covers=[*BLOCK, "packaging/uml"],
        seconds=150,
        processors=0.9,
    ),
    Suite(
        "clones",
        "zvol_clone, and what the target makes of it",
        files=["tests/integration/kernel/zvol_clone", "tests/integration/kernel/volume", "tests/integration/kernel/offload"],
        guest=True,
        needs=[TARGET, KERNEL],
        covers=[*BLOCK, "packaging/uml"],
        seconds=170,
        processors=0.9,
    ),
    Suite(
        "datasets",
        "files and NFS on datasets",
        files=["tests/integration/kernel/files", "tests/integration/kernel/nfs"],
        again=["tests/integration/nfs/test_clone_guarantees.py"],
        guest=True,
        needs=[FSAL, TARGET, KERNEL],
        covers=[*NFS, "packaging/uml"],
        seconds=70,
        processors=0.9,
    ),
    Suite(
        "pools",
        "the appliance on real pools, and the contract of its engine",
        files=["tests/integration/kernel/appliance"],
        again=["appliance/zfs/tests/contract"],
        guest=True,
        needs=[TARGET, FSAL, KERNEL],
        covers=[*APPLIANCE, *BLOCK, *NFS],
        seconds=180,
        processors=0.9,
    ),
    Suite(
        "guests",
        "the guest itself, the demo, power cuts",
        files=["tests/environment/test_guest.py", "tests/environment/test_demo.py", "tests/faults"],
        needs=[TARGET, FSAL, KERNEL, CONSOLE],
        covers=["packaging/uml", "packaging/demo", *APPLIANCE, *BLOCK, *NFS],
        seconds=170,
        processors=0.9,
    ),
)

ONLY_LONG = (
    Suite(
        "machine",
        "a Debian 13 booted by systemd: installation; reboot, upgrade and downgrade while hosts write",
        Run.LONG,
        files=["tests/machine"],
        network=True,
        needs=[PACKAGES, MACHINE],
        covers=["packaging/debian", "packaging/systemd", "packaging/uml"],
        seconds=600,
        processors=1,
    ),
    Suite(
        "soak",
        "two hours of snapshots, clones, kills and upgrades while hosts write: nothing lost, memory flat",
        Run.LONG,
        files=["tests/machine/test_soak.py"],
        network=True,
        needs=[PACKAGES, MACHINE],
        seconds=7800,
        processors=1,
    ),
    Suite(
        "image",
        "the disk image on an emulated PC with UEFI: first boot, Debian's own kernel with both modules",
        Run.LONG,
        files=["tests/image"],
        needs=[IMAGE],
        covers=["packaging/image", "packaging/build-image", "packaging/debian", "packaging/dkms"],
        seconds=900,
        processors=1.5,
    ),
    Suite(
        "conformance-newest",
        "the newest suite of libiscsi, if its source is available",
        Run.LONG,
        again=["tests/conformance"],
        needs=[TARGET, LIBISCSI],
        seconds=120,
    ),
    Suite(
        "clients-on-zvols",
        "clients and conformance once more, on zvols; the demo on a host that has the module",
        Run.LONG,
        again=["tests/integration/target", "tests/conformance", "tests/environment/test_demo.py"],
        guest=True,
        needs=[TARGET, KERNEL, FSAL, CONSOLE],
        seconds=600,
        processors=0.9,
    ),
    Suite(
        "nfs-on-datasets",
        "the NFS server once more, on datasets",
        Run.LONG,
        again=["tests/integration/nfs"],
        guest=True,
        needs=[FSAL, TARGET, KERNEL],
        seconds=600,
        processors=0.9,
    ),
    Suite(
        "openzfs-2.4",
        "the kernel tier once more, on OpenZFS of trixie-backports",
        Run.LONG,
        again=["tests/integration/kernel", "appliance/zfs/tests/contract"],
        guest=True,
        needs=[TARGET, FSAL, OPENZFS_2_4],
        seconds=1500,
        processors=0.9,
        environment={"ZVAAI_ZFS": "2.4"},
    ),
    Suite("fuzz-target", "a fixed number of inputs from the seeds on", Run.LONG, ["zvol_target/fuzz/run", "short"], seconds=200),
    Suite("fuzz-fsal", "a fixed number of inputs from the seeds on", Run.LONG, ["ganesha_fsal/fuzz/run", "short"], seconds=100),
    Suite(
        "fallback-kernel",
        "the kernel for when Debian has dropped the usual one",
        Run.LONG,
        again=["tests/integration/target/test_clients.py", "tests/integration/kernel/test_initiator.py"],
        guest=True,
        needs=[TARGET, FALLBACK],
        seconds=200,
        environment={"ZVAAI_KERNEL": str(REPOSITORY / ".cache/uml-fallback")},
    ),
)

SUITES = (*CHECKS, *NATIVE, *BARE, *PACKAGED, *ON_ZFS, *ONLY_LONG)
