// SPDX-License-Identifier: Apache-2.0
/** Actions on a device of a pool, with a dialog for each. The service checks requests; its refusals are shown. */

import { Checkbox, FormGroup, Radio } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { disksQuery } from "../../api/queries";
import type { Pool, Vdev } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { ActionsMenu, type Choice } from "../../parts/actions-menu";
import { JobDialog, type Place } from "../../parts/job-dialog";
import { QueryBoundary } from "../../parts/states";
import { useMay } from "../../session/session";
import { text } from "../../text";
import { candidatesFor, nameOf, type Candidate } from "./layout";

const words = text.pools;

interface Props {
  readonly device: Vdev;
  /** The vdev of the device. */
  readonly parent: Vdev | null;
  readonly onChoose: (chosen: Chosen) => void;
}

/** An action that the user has chosen, for its dialog. The dialog stays if the device leaves the pool. */
export interface Chosen {
  readonly device: Vdev;
  readonly action: "replace" | "attach" | "detach" | "remove" | "offline" | "online" | "clear";
}

/** Roles that OpenZFS can remove. */
const REMOVABLE: readonly string[] = ["log", "cache", "spare"];
/** Vdevs whose devices each have all data. */
const COPIES: readonly string[] = ["mirror", "replacing", "spare"];

/** Whether the pool works without it. */
export function isRemovable(device: Vdev, parent: Vdev | null): boolean {
  return parent === null && REMOVABLE.includes(device.role);
}

/** Whether it can only be removed: an unused spare, a mirror. */
export function isWhole(device: Vdev): boolean {
  return device.role === "spare" || (device.vdevs ?? []).length > 0;
}

export function DeviceMenu({ device, parent, onChoose }: Props) {
  const admin = useMay("admin");
  const away = device.health === "OFFLINE" || device.health === "UNAVAIL" || device.health === "REMOVED";
  const isCopy = parent !== null && COPIES.includes(parent.kind);
  const canAttach = device.role !== "cache" && (parent === null || parent.kind === "mirror");
  const choose = (action: Chosen["action"], danger = false): Choice => ({
    name: words[action].action,
    danger,
    onChoose: () => onChoose({ device, action }),
  });
  const ofDevice = [
    choose("replace"),
    ...(canAttach ? [choose("attach")] : []),
    away ? choose("online") : choose("offline", true),
    choose("clear"),
    ...(admin && isCopy ? [choose("detach", true)] : []),
  ];
  const removal = admin && isRemovable(device, parent) ? [choose("remove", true)] : [];
  return (
    <ActionsMenu row label={words.detail.actions(device.name)} choices={[...(isWhole(device) ? [] : ofDevice), ...removal]} />
  );
}

export function DeviceDialog({ action, ...about }: AboutDevice & Chosen) {
  return (
    <>
      {(action === "replace" || action === "attach") && <NewDevice {...about} action={action} />}
      {(action === "detach" || action === "remove") && <DropDevice {...about} action={action} />}
      {(action === "offline" || action === "online" || action === "clear") && <ChangeDevice {...about} action={action} />}
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

/** Removes a device from the pool permanently. */
function DropDevice({ pool, device, action, ...job }: AboutDevice & { readonly action: "detach" | "remove" }) {
  const said = words[action];
  const params = { path: { name: pool.name } };
  return (
    <JobDialog
      {...job}
      danger
      title={said.title(device.name)}
      lead={said.lead}
      submit={said.submit}
      body={() => ({ device: nameOf(pool, device) })}
      ask={(body, headers) =>
        action === "detach"
          ? api.POST("/api/v1/pools/{name}/detach", { params, body, headers })
          : api.POST("/api/v1/pools/{name}/remove", { params, body, headers })
      }
    />
  );
}

function about({ disk, spare, content }: Candidate): string {
  const parts = [
    ...(disk === undefined ? [] : [disk.model, disk.serial, formatBytes(disk.size)]),
    ...(spare ? [words.replace.spare] : []),
    ...(content === null ? [] : [words.replace.content(content)]),
  ];
  return parts.filter((part) => part !== "").join(", ");
}

/** A new device in place of another, or as a further mirror. */
function NewDevice({ pool, device, action, ...job }: AboutDevice & { readonly action: "replace" | "attach" }) {
  const said = words[action];
  const params = { path: { name: pool.name } };
  const query = useQuery(disksQuery);
  const mayForce = useMay("admin");
  const [disk, setDisk] = useState("");
  const [carrying, setCarrying] = useState(false);
  // A chosen disk can leave the list.
  const isUsable = candidatesFor(pool, query.data ?? [], action).some((item) => item.path === disk);
  return (
    <JobDialog
      {...job}
      danger
      title={said.title(device.name)}
      lead={said.lead}
      submit={said.submit}
      ready={() => isUsable}
      mayForce={mayForce}
      body={(force) => ({ device: nameOf(pool, device), new_device: disk, force })}
      ask={(body, headers) =>
        action === "replace"
          ? api.POST("/api/v1/pools/{name}/replace", { params, body, headers })
          : api.POST("/api/v1/pools/{name}/attach", { params, body, headers })
      }
    >
      {() => (
        <QueryBoundary query={query} what={words.disks.list}>
          {(disks) => {
            const usable = candidatesFor(pool, disks, action);
            // A chosen disk stays visible, even if it turns out to contain data.
            const shown = usable.filter(({ path, content }) => carrying || content === null || path === disk);
            return (
              <>
                {usable.some(({ content }) => content !== null) && (
                  <Checkbox
                    id="new-device-carrying"
                    label={words.replace.carrying}
                    isChecked={carrying}
                    onChange={(_event, on) => setCarrying(on)}
                  />
                )}
                {shown.length === 0 ? (
                  <p>{said.none}</p>
                ) : (
                  <FormGroup role="radiogroup" label={words.replace.disk} fieldId="new-device">
                    {shown.map((item, index) => (
                      <Radio
                        key={item.path}
                        id={`new-device-${index}`}
                        name="new-device"
                        label={item.path}
                        description={about(item)}
                        isChecked={disk === item.path}
                        onChange={() => setDisk(item.path)}
                      />
                    ))}
                  </FormGroup>
                )}
              </>
            );
          }}
        </QueryBoundary>
      )}
    </JobDialog>
  );
}
