# SPDX-License-Identifier: Apache-2.0
"""Logins at servers that an admin named: a directory, an OpenID Connect provider."""
