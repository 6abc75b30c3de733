# SPDX-License-Identifier: Apache-2.0
"""TLS to servers: directories, receivers of alerts, OpenID providers, and the appliance itself."""

import ssl


def context_for(certificate: str | None) -> ssl.SSLContext:
    """Checks certificates by those that the system trusts, or by `certificate`, PEM of an authority or a server.

    Without VERIFY_X509_STRICT, which Python 3.13 sets: it refuses certificates of many private authorities, for example without
    a key identifier, that OpenSSL accepts.
    """
    context = ssl.create_default_context(cadata=certificate)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
