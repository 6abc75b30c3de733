// SPDX-License-Identifier: Apache-2.0
/** CHAP of the target: whether hosts need it, and the target's own name and secret. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { iscsiSettingsQuery } from "../../api/queries";
import type { IscsiSettings } from "../../api/types";
import { ActionsMenu } from "../../parts/actions-menu";
import { ChangeDialog } from "../../parts/change-dialog";
import { Facts } from "../../parts/facts";
import { TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { Panel } from "../../parts/panel";
import { QueryBoundary } from "../../parts/states";
import { text } from "../../text";

const words = text.portals.chap;
const CHANGES = ["settings-iscsi", "readiness"];

interface Props {
  readonly settings: IscsiSettings;
  readonly onClose: () => void;
}

const DIALOGS = { require: RequireChap, target: SetTargetSecret, remove: RemoveTargetSecret } as const;

export function Chap() {
  const query = useQuery(iscsiSettingsQuery);
  const [chosen, setChosen] = useState<keyof typeof DIALOGS | null>(null);
  const Dialog = chosen && DIALOGS[chosen];
  return (
    <Panel title={words.title} lead={words.lead}>
      <QueryBoundary query={query} what={words.title}>
        {(settings) => (
          <>
            <Facts
              facts={[
                [words.required, settings.chap_required ? text.common.yes : text.common.no],
                [words.target, settings.target_chap_name ?? text.common.unset],
              ]}
            />
            <div className="zv-below">
              <ActionsMenu
                label={text.portals.menu(words.title)}
                choices={[
                  { name: settings.chap_required ? words.off : words.require, onChoose: () => setChosen("require") },
                  { name: words.setTarget, onChoose: () => setChosen("target") },
                  ...(settings.target_chap_name == null
                    ? []
                    : [{ name: words.removeTarget, danger: true, onChoose: () => setChosen("remove") }]),
                ]}
              />
            </div>
            {Dialog && <Dialog settings={settings} onClose={() => setChosen(null)} />}
          </>
        )}
      </QueryBoundary>
    </Panel>
  );
}

function RequireChap({ settings, onClose }: Props) {
  // The user confirms this change, also if another user changes the setting meanwhile.
  const [required] = useState(settings.chap_required);
  return (
    <ChangeDialog
      danger={required}
      title={required ? words.offTitle : words.requireTitle}
      lead={required ? words.offLead : words.requireLead}
      submit={required ? words.off : words.require}
      body={(force) => ({ chap_required: !required, force })}
      ask={(body, headers) => api.PUT("/api/v1/settings/iscsi", { body, headers })}
      changes={CHANGES}
      done={words.changed}
      onClose={onClose}
    />
  );
}

function SetTargetSecret({ onClose }: Props) {
  const [values, change] = useForm({ name: "", secret: "" });
  return (
    <ChangeDialog
      title={words.targetTitle}
      lead={words.targetLead}
      submit={words.targetSubmit}
      ready={values.name !== "" && values.secret !== ""}
      knownFields={["name", "secret"]}
      body={() => values}
      ask={(body, headers) => api.PUT("/api/v1/settings/iscsi/target-chap", { body, headers })}
      changes={CHANGES}
      done={words.changed}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <TextField
            id="target-chap-name"
            label={words.name}
            value={values.name}
            onChange={(name) => change({ name })}
            problem={problem?.fields.get("name")}
            required
          />
          <TextField
            id="target-chap-secret"
            label={words.secret}
            help={words.secretHelp}
            type="password"
            autoComplete="new-password"
            value={values.secret}
            onChange={(secret) => change({ secret })}
            problem={problem?.fields.get("secret")}
            required
          />
        </>
      )}
    </ChangeDialog>
  );
}

function RemoveTargetSecret({ onClose }: Props) {
  return (
    <ChangeDialog
      danger
      title={words.removeTargetTitle}
      lead={words.removeTargetLead}
      submit={words.removeTargetSubmit}
      body={() => null}
      ask={(_body, headers) => api.DELETE("/api/v1/settings/iscsi/target-chap", { headers })}
      changes={CHANGES}
      done={words.changed}
      onClose={onClose}
    />
  );
}
