// SPDX-License-Identifier: Apache-2.0
/** Holds on a snapshot: list, create, release. */

import { FormGroup, Label, Radio } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { holdsQuery } from "../../api/queries";
import type { Datastore, Hold, Snapshot } from "../../api/types";
import { TextField } from "../../parts/field";
import { JobDialog } from "../../parts/job-dialog";
import { QueryBoundary } from "../../parts/states";
import { text } from "../../text";
import type { DialogProps } from "./actions";

const words = text.datastores.detail.snapshots.holds;

interface SnapshotProps {
  readonly store: Datastore;
  readonly snapshot: Snapshot;
}

/** A label for each hold; before they are loaded, only their number. */
export function HoldLabels({ store, snapshot, enabled }: SnapshotProps & { readonly enabled: boolean }) {
  const { data: holds } = useQuery({ ...holdsQuery(store.id, snapshot.name), enabled: enabled && snapshot.holds > 0 });
  if (snapshot.holds === 0) return null;
  if (holds === undefined) return <Label isCompact>{words.count(snapshot.holds)}</Label>;
  return holds.map((hold) => (
    <Label key={hold.tag} isCompact className="zv-hold">
      {words.held(hold.tag)}
    </Label>
  ));
}

type Props = DialogProps & { readonly snapshot: Snapshot };

export function HoldSnapshot({ store, snapshot, ...job }: Props) {
  const [tag, setTag] = useState("");
  return (
    <JobDialog
      {...job}
      title={words.hold.title(snapshot.name)}
      lead={words.hold.lead}
      submit={words.hold.submit}
      ready={() => tag !== ""}
      knownFields={["tag"]}
      body={() => ({ tag })}
      ask={(body, headers) =>
        api.POST("/api/v1/datastores/{datastore_id}/snapshots/{name}/holds", {
          params: { path: { datastore_id: store.id, name: snapshot.name } },
          body,
          headers,
        })
      }
    >
      {(problem) => (
        <TextField
          id="hold-tag"
          label={words.hold.tag}
          help={words.hold.tagHelp}
          value={tag}
          onChange={setTag}
          problem={problem?.at("tag")}
          required
        />
      )}
    </JobDialog>
  );
}

/** Holds of the appliance and of OpenZFS cannot be chosen; a text says why. */
export function ReleaseHold({ store, snapshot, ...job }: Props) {
  const [chosen, setChosen] = useState("");
  const query = useQuery(holdsQuery(store.id, snapshot.name));
  return (
    <JobDialog
      {...job}
      title={words.release.title(snapshot.name)}
      lead={words.release.lead}
      submit={words.release.submit}
      ready={() => chosen !== ""}
      body={() => chosen}
      ask={(tag, headers) =>
        api.DELETE("/api/v1/datastores/{datastore_id}/snapshots/{name}/holds/{tag}", {
          params: { path: { datastore_id: store.id, name: snapshot.name, tag } },
          headers,
        })
      }
    >
      {() => (
        <QueryBoundary query={query} what={words.release.which}>
          {(holds) => <Choice holds={holds} chosen={chosen} onChange={setChosen} />}
        </QueryBoundary>
      )}
    </JobDialog>
  );
}

interface ChoiceProps {
  readonly holds: readonly Hold[];
  readonly chosen: string;
  readonly onChange: (tag: string) => void;
}

function Choice({ holds, chosen, onChange }: ChoiceProps) {
  return (
    <FormGroup role="radiogroup" label={words.release.which} fieldId="holds" isStack>
      {holds.map((hold, index) => (
        <Radio
          key={hold.tag}
          id={`hold-${index}`}
          name="hold"
          label={hold.tag}
          description={words.of[hold.of]}
          isDisabled={hold.of !== "user"}
          isChecked={chosen === hold.tag}
          onChange={() => onChange(hold.tag)}
        />
      ))}
    </FormGroup>
  );
}
