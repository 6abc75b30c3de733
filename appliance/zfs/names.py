# SPDX-License-Identifier: Apache-2.0
"""Names that ZFS allows: zfsconcepts(7), zpool-create(8), and zfs_namecheck.c of libzfs.

Each check returns the name, or raises InvalidName.
"""

import re

from appliance.zfs.errors import InvalidName

MAX_NAME_BYTES = 255
"""ZFS_MAX_DATASET_NAME_LEN without the terminating zero, for a dataset's or snapshot's full name."""
MAX_NESTING = 50
"""zfs_max_dataset_nesting."""
MAX_USER_PROPERTY_VALUE_BYTES = 8191
"""ZAP_MAXVALUELEN without its terminating zero."""

_COMPONENT = re.compile(r"[A-Za-z0-9_.: -]+")
_POOL = re.compile(r"[A-Za-z][A-Za-z0-9_.: -]*")
_RESERVED_BEGINNINGS = ("mirror", "raidz", "draid", "spare")
_USER_PROPERTY = re.compile(r"[a-z0-9._+][a-z0-9._+-]*:[a-z0-9:._+-]*|[a-z0-9._+][a-z0-9:._+-]*:[a-z0-9._+-]*")
_FIRST_PARTITION = re.compile(r"(/.+)-part1|(/dev/[^/]*[0-9])p1|(/dev/[^/]*[a-z])1")
_HOLD_TAG = re.compile(r"[A-Za-z0-9_.:-]+")


def _component(whole: str, component: str) -> None:
    if not component:
        raise InvalidName(whole, "a component is empty")
    if component in {".", ".."}:
        raise InvalidName(whole, f"{component!r} is not a component")
    if not _COMPONENT.fullmatch(component):
        raise InvalidName(whole, "only letters, digits, space and _ . : - are allowed")


def _length(name: str) -> None:
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise InvalidName(name[:300], f"longer than {MAX_NAME_BYTES} bytes")


def zvol_link(volume: str) -> str:
    """udev's link to a volume: zvol_id of OpenZFS puts "+" for each space, as no name has "+"."""
    return f"/dev/zvol/{volume.replace(' ', '+')}"


def pool_name(name: str) -> str:
    _length(name)
    if not _POOL.fullmatch(name):
        raise InvalidName(name, "a pool's name begins with a letter and has only letters, digits, space and _ . : -")
    if name == "log" or name.startswith(_RESERVED_BEGINNINGS):
        raise InvalidName(name, "log and names that begin with mirror, raidz, draid or spare are reserved")
    return name


def dataset_name(name: str) -> str:
    """POOL or POOL/PATH."""
    _length(name)
    components = name.split("/")
    if not _POOL.fullmatch(components[0]):
        raise InvalidName(name, "the pool's name begins with a letter and has only letters, digits, space and _ . : -")
    for component in components[1:]:
        _component(name, component)
    if len(components) > MAX_NESTING:
        raise InvalidName(name, f"more than {MAX_NESTING} levels")
    return name


def new_dataset_name(name: str) -> str:
    """POOL/PATH: a dataset that can be created and destroyed."""
    if "/" not in dataset_name(name):
        raise InvalidName(name, "this is a pool's root file system")
    return name


def snapshot_name(name: str) -> str:
    """DATASET@TAG."""
    _length(name)
    dataset, at, tag = name.partition("@")
    if not at:
        raise InvalidName(name, "a snapshot's name is DATASET@TAG")
    dataset_name(dataset)
    _component(name, tag)
    return name


def dataset_or_snapshot_name(name: str) -> str:
    return snapshot_name(name) if "@" in name else dataset_name(name)


def is_user_property(name: str) -> bool:
    return ":" in name


def user_property_name(name: str) -> str:
    """MODULE:NAME of lower-case letters, digits and : . _ + - (zfsprops(7), User Properties)."""
    _length(name)
    if not _USER_PROPERTY.fullmatch(name):
        raise InvalidName(name, "a user property has a colon and only lower-case letters, digits and : . _ + -")
    return name


def hold_tag(tag: str) -> str:
    """Tag of a hold; ZFS would allow any bytes."""
    _length(tag)
    if not _HOLD_TAG.fullmatch(tag):
        raise InvalidName(tag, "a hold's tag has only letters, digits and _ . : -")
    return tag


def pool_of(name: str) -> str:
    return name.split("@", 1)[0].split("/", 1)[0]


def whole_disk(path: str) -> str | None:
    """The disk of a first partition. OpenZFS makes one on a disk that it takes as a whole (zfs_append_partition of libzutil).

    It makes none on a map of the device mapper, whose name can end as that of a partition (efi_alloc_and_init of libefi).
    """
    match = _FIRST_PARTITION.fullmatch(path)
    return match[1] or match[2] or match[3] if match else None
