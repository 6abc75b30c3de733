# SPDX-License-Identifier: Apache-2.0
"""A certificate by ACME, as docs/guide.md says: Debian's certbot, and Pebble, Let's Encrypt's own ACME server for tests."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from machine import Machine
from support.programs import REPOSITORY, wait_for
from support.storage_server import MachineMaker

NAME = "storage.example"
SERVER = "https://acme.example:14000/dir"
PEBBLE = f"""
apt-get -q update && apt-get -q -y install pebble certbot
printf '192.0.2.2 {NAME} acme.example\\n' >>/etc/hosts
mkdir /root/acme && cd /root/acme
openssl req -x509 -newkey rsa:2048 -noenc -days 30 -subj /CN=acme -addext subjectAltName=DNS:acme.example \\
    -keyout key.pem -out cert.pem
install -m 644 cert.pem /usr/local/share/ca-certificates/acme.crt && update-ca-certificates
cat >config.json <<'END'
{{"pebble": {{"listenAddress": "0.0.0.0:14000", "managementListenAddress": "0.0.0.0:15000", "certificate": "cert.pem",
  "privateKey": "key.pem", "httpPort": 80, "tlsPort": 443, "certificateValidityPeriod": 7776000}}}}
END
systemd-run --unit=pebble --working-directory=/root/acme --setenv=PEBBLE_VA_NOSLEEP=1 pebble -config config.json
until wget -q -O root.pem https://acme.example:15000/roots/0; do sleep 0.2; done
"""
SERVED = f"""
openssl s_client -connect 192.0.2.2:8443 -servername {NAME} -verify_hostname {NAME} -CAfile /root/acme/root.pem -no-CApath \\
    -verify_return_error </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256
"""


def documented() -> dict[str, str]:
    """The commands of the guide, by the words that begin them."""
    section = (REPOSITORY / "docs/guide.md").read_text().partition("\n## Get a certificate by ACME\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^ {4}(.+)$", section, re.MULTILINE)
    return {" ".join(line.split()[:2]): line.replace("storage.example.com", NAME) for line in lines}


@pytest.fixture(scope="module")
def server(machine_of: MachineMaker, copy_of_server: str) -> Iterator[Machine]:
    """Set up, with an ACME server that reaches its port 80."""
    with machine_of(copy_of_server) as machine:
        machine.wait_for_boot()
        machine.run(PEBBLE, 900)
        yield machine


def served(machine: Machine) -> str:
    """Fingerprint of the served certificate, if a client that trusts the ACME server's root accepts it for NAME."""
    fingerprint = re.search(r"ingerprint=([0-9A-F:]+)", machine.run(SERVED, check=False))
    return fingerprint[1] if fingerprint else ""


def test_certbot_gets_and_renews_the_certificate(server: Machine) -> None:
    """nginx serves it without a restart, except the daily one; certbot's timer renews it when it is due."""
    commands = documented()
    assert served(server) == "", "the appliance's own certificate is not trusted"
    began = server.run("systemctl show -P MainPID zvaai-frontend")
    server.run(f"{commands['certbot certonly']} --server {SERVER} -n --agree-tos --register-unsafely-without-email", 300)
    wait_for(lambda: served(server) != "", "the certificate of the ACME server is served", 60)
    first = served(server)

    # It takes the staging server otherwise, and sleeps for minutes without a terminal.
    server.run(f"{commands['certbot renew']} --server {SERVER} --no-random-sleep-on-renew", 300)
    server.run("systemctl start certbot.service", 300)
    assert served(server) == first, "a trial, and a renewal that is not due, change nothing"

    server.run(f"sed -i '1i renew_before_expiry = 200 days' /etc/letsencrypt/renewal/{NAME}.conf")
    server.run("systemctl start certbot.service", 300)
    wait_for(lambda: served(server) not in ("", first), "the renewed certificate is served", 60)
    assert server.run("systemctl show -P MainPID zvaai-frontend") == began
    server.run("systemctl start zvaai-frontend-restart.service")
    assert server.run("systemctl show -P MainPID zvaai-frontend") != began, "updates of nginx and OpenSSL are not used"
    assert server.run("systemctl list-timers --no-legend certbot.timer").strip()
    server.run("test -z \"$(ss -Hltn 'sport = :80')\"")
