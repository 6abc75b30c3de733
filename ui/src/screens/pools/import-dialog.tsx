// SPDX-License-Identifier: Apache-2.0
/** Import of a pool. */

import { Checkbox, FormGroup, Radio } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { importableQuery } from "../../api/queries";
import { TextField } from "../../parts/field";
import { JobDialog, type Place } from "../../parts/job-dialog";
import { Alert } from "../../parts/patternfly";
import { QueryBoundary } from "../../parts/states";
import { text } from "../../text";

const words = text.pools.import;

export function ImportPool(place: Place) {
  const query = useQuery(importableQuery);
  const [chosen, setChosen] = useState("");
  const [name, setName] = useState("");
  // Whether the user has confirmed that no other system uses the pool.
  const [unused, setUnused] = useState(false);
  const pool = query.data?.find((candidate) => candidate.guid === chosen);
  return (
    <JobDialog
      {...place}
      title={words.title}
      lead={words.lead}
      submit={words.submit}
      ready={() => pool !== undefined && (pool.last_host == null || unused)}
      knownFields={["new_name"]}
      body={(force) => ({ pool: chosen, new_name: name.trim() === "" ? null : name.trim(), force: force || unused })}
      ask={(body, headers) => api.POST("/api/v1/pools/import", { body, headers })}
    >
      {(problem) => (
        <QueryBoundary query={query} what={words.choose}>
          {(pools) =>
            pools.length === 0 ? (
              <p>{words.none}</p>
            ) : (
              <>
                <FormGroup role="radiogroup" label={words.choose} fieldId="importable">
                  {pools.map((pool) => (
                    <Radio
                      key={pool.guid}
                      id={`import-${pool.guid}`}
                      name="importable"
                      label={`${pool.name}: ${pool.health}, ${words.devices(pool.devices.length)}`}
                      description={[pool.status, pool.action, pool.devices.join(", ")].filter((part) => part !== "").join(" ")}
                      isChecked={chosen === pool.guid}
                      onChange={() => {
                        setChosen(pool.guid);
                        setUnused(false);
                      }}
                    />
                  ))}
                </FormGroup>
                {pool?.last_host != null && (
                  <>
                    <Alert variant="warning" isInline isPlain component="p" title={words.maybeInUse} />
                    <Checkbox
                      id="import-unused"
                      label={words.unused}
                      isChecked={unused}
                      onChange={(_event, checked) => setUnused(checked)}
                    />
                  </>
                )}
                <TextField
                  id="import-name"
                  label={words.newName}
                  help={words.newNameHelp}
                  value={name}
                  onChange={setName}
                  problem={problem?.at("new_name")}
                />
              </>
            )
          }
        </QueryBoundary>
      )}
    </JobDialog>
  );
}
