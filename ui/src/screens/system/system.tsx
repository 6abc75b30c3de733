// SPDX-License-Identifier: Apache-2.0
/** The appliance itself. Only administrators can change settings. */

import { Button, ClipboardCopy, Grid, GridItem } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { certificateQuery, statusQuery } from "../../api/queries";
import type { Certificate, Status } from "../../api/types";
import { Facts } from "../../parts/facts";
import { Screen } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { QueryBoundary } from "../../parts/states";
import { Time } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { ReplaceCertificate } from "./certificate";
import { Configuration } from "./configuration";
import { Bundles } from "./support";
import { Chap } from "./chap";
import { Portals } from "./portals";
import { PowerPanel } from "./power";
import { Receivers } from "./receivers";
import { RecoveryPanel } from "./recovery";
import { UpdatesPanel } from "./updates";

const words = text.system;
const METRICS = `${window.location.origin}/api/v1/metrics`;

export default function SystemScreen() {
  const status = useQuery(statusQuery);
  const certificate = useQuery(certificateQuery);
  const [replacing, setReplacing] = useState(false);
  return (
    <Screen title={words.title}>
      <RecoveryPanel />
      <Grid hasGutter>
        <GridItem span={12} lg={6}>
          <Panel title={words.versions.title}>
            <QueryBoundary query={status} what={words.versions.title} lines={2}>
              {(loaded) => <Versions status={loaded} />}
            </QueryBoundary>
          </Panel>
        </GridItem>
        <GridItem span={12} lg={6}>
          <Panel title={words.metrics.title} lead={words.metrics.lead}>
            <ClipboardCopy
              isReadOnly
              hoverTip={text.common.copy}
              clickTip={text.common.copied}
              textAriaLabel={words.metrics.address}
            >
              {METRICS}
            </ClipboardCopy>
          </Panel>
        </GridItem>
        <GridItem span={12}>
          <UpdatesPanel />
        </GridItem>
        <May least="admin">
          <GridItem span={12}>
            <PowerPanel />
          </GridItem>
        </May>
        <GridItem span={12}>
          <Panel title={words.certificate.title} lead={words.certificate.lead}>
            <QueryBoundary query={certificate} what={words.certificate.title} lines={4}>
              {(loaded) => <CertificateFacts certificate={loaded} />}
            </QueryBoundary>
            <May least="admin">
              <div className="zv-buttons">
                <Button variant="secondary" onClick={() => setReplacing(true)}>
                  {words.certificate.replace}
                </Button>
              </div>
            </May>
            {replacing && <ReplaceCertificate onClose={() => setReplacing(false)} />}
          </Panel>
        </GridItem>
        <May least="admin">
          <GridItem span={12} lg={8}>
            <Portals />
          </GridItem>
          <GridItem span={12} lg={4}>
            <Chap />
          </GridItem>
          <GridItem span={12}>
            <Receivers />
          </GridItem>
          <GridItem span={12} lg={6}>
            <Configuration />
          </GridItem>
          <GridItem span={12} lg={6}>
            <Bundles />
          </GridItem>
        </May>
      </Grid>
    </Screen>
  );
}

function Versions({ status }: { readonly status: Status }) {
  return (
    <Facts
      facts={[
        [words.versions.appliance, status.version],
        [words.versions.target, status.target.running ? status.target.version : words.versions.notRunning],
      ]}
    />
  );
}

function CertificateFacts({ certificate }: { readonly certificate: Certificate }) {
  return (
    <>
      <Facts
        facts={[
          [words.certificate.subject, certificate.subject],
          [words.certificate.issuer, certificate.issuer],
          [words.certificate.names, certificate.names.join(", ")],
          [words.certificate.until, <Time key="until" at={certificate.not_after} />],
          [words.certificate.fingerprint, <code key="fingerprint">{certificate.fingerprint}</code>],
        ]}
      />
      <p className="zv-below">{certificate.self_signed ? words.certificate.selfSigned : words.certificate.given}</p>
    </>
  );
}
