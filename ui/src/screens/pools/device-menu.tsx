// SPDX-License-Identifier: Apache-2.0
/** What can be done with a device of a pool, with a dialog for each. Guard rails are the service's: what it refuses is shown. */

import { FormGroup, Radio } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { disksQuery } from "../../api/queries";
import type { Pool, Vdev } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { ActionsMenu } from "../../parts/actions-menu";
import { JobDialog, type Place } from "../../parts/job-dialog";
import { QueryBoundary } from "../../parts/states";
import { text } from "../../text";
import { candidatesFor, nameOf } from "./layout";

const words = text.pools;

interface Props {
  readonly pool: Pool;
  readonly device: Vdev;
  readonly onBegin: Place["onBegin"];
}

export function DeviceMenu({ pool, device, onBegin }: Props) {
  const [chosen, setChosen] = useState<"replace" | "offline" | "online" | "clear" | null>(null);
  const about = { pool, device, onBegin, onClose: () => setChosen(null) };
  const away = device.health === "OFFLINE" || device.health === "UNAVAIL" || device.health === "REMOVED";
  return (
    <>
      <ActionsMenu
        row
        label={words.detail.actions(device.name)}
        choices={[
          { name: words.replace.action, onChoose: () => setChosen("replace") },
          away
            ? { name: words.online.action, onChoose: () => setChosen("online") }
            : { name: words.offline.action, danger: true, onChoose: () => setChosen("offline") },
          { name: words.clear.action, onChoose: () => setChosen("clear") },
        ]}
      />
      {chosen === "replace" && <Replace {...about} />}
      {(chosen === "offline" || chosen === "online" || chosen === "clear") && <ChangeDevice {...about} action={chosen} />}
    </>
  );
}

interface AboutDevice extends Place {
  readonly pool: Pool;
  readonly device: Vdev;
}

function ChangeDevice({ pool, device, action, ...job }: AboutDevice & { readonly action: "offline" | "online" | "clear" }) {
  const said = words[action];
  return (
    <JobDialog
      {...job}
      danger={action === "offline"}
      title={said.title(device.name)}
      lead={said.lead}
      submit={said.submit}
      body={() => ({ device: nameOf(pool, device), action })}
      ask={(body, headers) => api.POST("/api/v1/pools/{name}/device", { params: { path: { name: pool.name } }, body, headers })}
    />
  );
}

function Replace({ pool, device, ...job }: AboutDevice) {
  const query = useQuery(disksQuery);
  const [disk, setDisk] = useState("");
  return (
    <JobDialog
      {...job}
      danger
      title={words.replace.title(device.name)}
      lead={words.replace.lead}
      submit={words.replace.submit}
      ready={() => disk !== ""}
      body={(force) => ({ device: nameOf(pool, device), new_device: disk, force })}
      ask={(body, headers) => api.POST("/api/v1/pools/{name}/replace", { params: { path: { name: pool.name } }, body, headers })}
    >
      {() => (
        <QueryBoundary query={query} what={words.disks.list}>
          {(disks) => {
            const usable = candidatesFor(pool, disks);
            if (usable.length === 0) return <p>{words.replace.none}</p>;
            return (
              <FormGroup role="radiogroup" label={words.replace.disk} fieldId="new-device">
                {usable.map((one, index) => (
                  <Radio
                    key={one.path}
                    id={`new-device-${index}`}
                    name="new-device"
                    label={one.path}
                    description={[
                      one.disk?.model ?? "",
                      one.disk?.serial ?? "",
                      one.disk === undefined ? "" : formatBytes(one.disk.size),
                      one.spare ? words.replace.spare : "",
                    ]
                      .filter((part) => part !== "")
                      .join(", ")}
                    isChecked={disk === one.path}
                    onChange={() => setDisk(one.path)}
                  />
                ))}
              </FormGroup>
            );
          }}
        </QueryBoundary>
      )}
    </JobDialog>
  );
}
