// SPDX-License-Identifier: Apache-2.0
import { Grid, GridItem } from "@patternfly/react-core";
import { Screen } from "../../parts/page";
import { text } from "../../text";
import { AlertsCard, JobsCard } from "./journal-cards";
import { HealthCard } from "./health-card";
import { LoadCard } from "./load-card";
import { OffloadsCard } from "./offloads-card";
import { PoolsCard } from "./pools-card";

export function DashboardScreen() {
  return (
    <Screen title={text.dashboard.title}>
      <Grid hasGutter>
        <GridItem span={12} xl={4}>
          <HealthCard />
        </GridItem>
        <GridItem span={12} xl={8}>
          <PoolsCard />
        </GridItem>
        <GridItem span={12}>
          <OffloadsCard />
        </GridItem>
        <GridItem span={12}>
          <LoadCard />
        </GridItem>
        <GridItem span={12} lg={6}>
          <AlertsCard />
        </GridItem>
        <GridItem span={12} lg={6}>
          <JobsCard />
        </GridItem>
      </Grid>
    </Screen>
  );
}
