// SPDX-License-Identifier: Apache-2.0
/** Users, for administrators; API tokens, for everyone. */

import { Grid, GridItem } from "@patternfly/react-core";
import { Screen } from "../../parts/page";
import { May } from "../../session/session";
import { text } from "../../text";
import { Directory } from "./directory";
import { Oidc } from "./oidc";
import { Tokens } from "./tokens";
import { Users } from "./users";

export default function PeopleScreen() {
  return (
    <Screen title={text.people.title}>
      <Grid hasGutter>
        <May least="admin">
          <GridItem span={12}>
            <Users />
          </GridItem>
          <GridItem span={12} lg={6}>
            <Directory />
          </GridItem>
          <GridItem span={12} lg={6}>
            <Oidc />
          </GridItem>
        </May>
        <GridItem span={12}>
          <Tokens />
        </GridItem>
      </Grid>
    </Screen>
  );
}
