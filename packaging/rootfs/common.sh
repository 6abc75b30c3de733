# Shared by the scripts of this folder; sourced. Sets: repository, cache, root (the Debian 13 root folder).
# shellcheck shell=bash
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=$repository/.cache
root=$cache/rootfs

# True on Debian 13 itself, and inside the root folder: there nothing is built and nothing entered.
on_debian_13() {
  [ -z "${ZVAAI_FORCE_ROOTFS:-}" ] || [ -e /.zvaai-rootfs ] || return 1
  # shellcheck disable=SC1091
  (. /etc/os-release && [ "$ID" = debian ] && [ "$VERSION_ID" = 13 ])
}

say() { printf 'rootfs: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# The packages of the named layers, one a line.
packages() { local layer; for layer; do grep -v '^#' "$repository/packaging/rootfs/packages.$layer"; done; }
# What Debian lacks of a layer, from PyPI; nothing for most layers.
python_requirements() { [ ! -e "$repository/packaging/rootfs/python.$1" ] || grep -v '^#' "$repository/packaging/rootfs/python.$1"; }
