# SPDX-License-Identifier: Apache-2.0
# How a root folder reaches the package registries that this machine reaches; sourced.
# shellcheck shell=bash

# apt's settings of this machine: mmdebstrap and apt inside read only those of their root folder.
registry_apt_settings() { apt-config dump | grep -E '^Acquire::(http|https|ftp|Check|Retries)[^ ]* "' || true; }

# What this machine needs to reach package registries, the root folder needs too. usage: carry_registry_settings ROOT
carry_registry_settings() {
  local root=$1 file
  cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
  for file in /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/pip.conf; do
    [ ! -e "$file" ] || cp -rL "$file" "$root$(dirname "$file")/"
  done
  registry_apt_settings >"$root/etc/apt/apt.conf.d/90zvaai-host"
  for file in .config/pip/pip.conf .pip/pip.conf .npmrc .cargo/config.toml; do
    [ ! -f "${HOME:-/root}/$file" ] || install -D -m 600 "${HOME:-/root}/$file" "$root/root/$file"
  done
}

# A private certification authority of this machine counts inside too. usage: carry_certificates ROOT
carry_certificates() {
  [ -f /etc/ssl/certs/ca-certificates.crt ] || return 0
  install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
}

# The variables that say the same to cargo, pip, npm and others: an extended regular expression.
# shellcheck disable=SC2034  # for who sources this
registry_variables='CARGO_(NET_.*|REGISTRIES_.*|HTTP_.*)|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|PIP_(CERT|INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT)|npm_config_.*|[a-zA-Z]+_(proxy|PROXY)'
