# SPDX-License-Identifier: Apache-2.0
"""The files of one VM in a folder of an NFS datastore, and their changes when the folder is restored under another name.

VMware's formats: .vmx, .vmsd and .vmxf are lines of `name = "value"`; a .vmdk with less than a MiB is a descriptor, whose extents
are lines such as `RW 83886080 VMFS "vm-flat.vmdk"` (Virtual Disk Format 5.0, "The Descriptor File").
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.domain.errors import ConflictError, InvalidError

DESCRIPTOR_BYTES = 64 << 10
TEXTS = (".vmx", ".vmxf", ".vmsd")
_LEFT_OUT = re.compile(r"(.*\.(vswp|lck|log)|vmware.*\.log|\.lck-.*|\.zvaai-.*|\.nfs.*)", re.IGNORECASE)
"""Files of a running VM, or left by one: swap, locks, logs."""
_NAME = re.compile(r"[^/\\\0\"\n\r]{1,200}")
_QUOTED = re.compile(r'"([^"\n]*)"')
_DROPPED = re.compile(
    r"^\s*(sched\.swap\.derivedName|migrate\.hostLog|uuid\.action|vmx\.buildType)\s*=.*\n?", re.MULTILINE | re.I
)
_DISPLAY = re.compile(r'^(\s*displayName\s*=\s*)"[^"\n]*"', re.MULTILINE | re.IGNORECASE)
_ELSEWHERE = re.compile(r'^\s*(\S+)\.fileName\s*=\s*"([^"\n]*/[^"\n]*\.vmdk)"', re.MULTILINE | re.IGNORECASE)
_PARENT = re.compile(r'^\s*parentFileNameHint\s*=\s*"([^"\n]*/[^"\n]*)"', re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class VmFile:
    """A file to restore: its names in the snapshot and in the new folder, and whether its content is rewritten."""

    source: str
    name: str
    size: int
    text: bool


def check_name(name: str) -> None:
    """Checks the name of the restored VM and its folder. Raises InvalidError."""
    if not _NAME.fullmatch(name) or name.strip(" .") != name or not name.isprintable() or len(name.encode()) > 200:
        raise InvalidError("name", "not a name of a VM's folder", '1 to 200 bytes without / \\ ", no space or dot at the ends')


def chosen(entries: Iterable[tuple[str, str, int]], folder: str, new_name: str) -> list[VmFile]:
    """The files of a VM's folder with their new names; `entries` are name, kind and size. Raises ConflictError, InvalidError."""
    check_name(new_name)
    files = [(name, size) for name, kind, size in entries if kind == "file" and not _LEFT_OUT.fullmatch(name)]
    configurations = [name for name, _ in files if name.lower().endswith(".vmx")]
    if len(configurations) != 1:
        reason = f"Cannot restore {folder}: a VM's folder has one .vmx file, and this has {len(configurations)}"
        raise ConflictError(reason, configurations, field_name="folder")
    old = configurations[0][: -len(".vmx")]
    vm_files = []
    for name, size in files:
        new = new_name + name[len(old) :] if name.startswith(old) and name[len(old) :][:1] in ("", ".", "-", "_") else name
        text = name.lower().endswith(TEXTS) or (name.lower().endswith(".vmdk") and size <= DESCRIPTOR_BYTES)
        vm_files.append(VmFile(name, new, size, text))
    if len({file.name for file in vm_files}) < len(vm_files):
        raise ConflictError(f"Cannot restore {folder}: two of its files would get the same name", [new_name], field_name="name")
    return vm_files


def rewritten(file: VmFile, content: bytes, names: Mapping[str, str], new_name: str) -> bytes:
    """The content of a text file with the new names in it. Raises ConflictError for a disk that lies in another folder."""
    text = content.decode("utf-8", "surrogateescape")
    is_disk = file.source.lower().endswith(".vmdk")
    if is_disk and not text.startswith("# Disk DescriptorFile"):
        return content  # a small disk, no descriptor
    outside = [match[1] for match in _PARENT.finditer(text)] if is_disk else [match[2] for match in _ELSEWHERE.finditer(text)]
    if outside:
        reason = f"Cannot restore {new_name}: a disk of it lies in another folder, and both VMs would write to it"
        raise ConflictError(reason, outside)
    text = _QUOTED.sub(lambda match: f'"{names.get(match[1], match[1])}"', text)
    if file.source.lower().endswith(".vmx"):
        text = _DROPPED.sub("", text)
        text, count = _DISPLAY.subn(lambda match: f'{match[1]}"{new_name}"', text)
        if not text.endswith("\n"):
            text += "\n"
        if not count:
            text += f'displayName = "{new_name}"\n'
        text += 'uuid.action = "create"\n'  # a copy: new UUID and MAC addresses, and no question at its first start
    return text.encode("utf-8", "surrogateescape")
