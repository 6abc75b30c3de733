// SPDX-License-Identifier: Apache-2.0
/** Portals of the iSCSI target, with dialogs to change them. */

import { Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import type { ApiProblem } from "../../api/problem";
import { portalsQuery } from "../../api/queries";
import type { Portal } from "../../api/types";
import { ActionsMenu } from "../../parts/actions-menu";
import { ChangeDialog } from "../../parts/change-dialog";
import { changedOf } from "../../parts/changed";
import { ChoiceField, TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { ListPanel } from "../../parts/list-panel";
import { text } from "../../text";

const words = text.portals;
const FIELDS = ["address", "group_tag", "advertised", "replaces"];
const CHANGES = ["portals", "readiness", "status"];
const DIALOGS = { change: ChangePortal, remove: RemovePortal } as const;

interface Props {
  readonly portal: Portal;
  readonly onClose: () => void;
}

export function Portals() {
  const query = useQuery(portalsQuery);
  const [chosen, setChosen] = useState<{ portal: Portal; action: keyof typeof DIALOGS } | null>(null);
  const Dialog = chosen && DIALOGS[chosen.action];
  return (
    <>
      <ListPanel words={words} query={query} creator={(onClose) => <AddPortal portals={query.data ?? []} onClose={onClose} />}>
        {(portals) => <PortalTable portals={portals} onChoose={(portal, action) => setChosen({ portal, action })} />}
      </ListPanel>
      {Dialog && <Dialog portal={chosen.portal} onClose={() => setChosen(null)} />}
    </>
  );
}

interface TableProps {
  readonly portals: readonly Portal[];
  readonly onChoose: (portal: Portal, action: keyof typeof DIALOGS) => void;
}

function PortalTable({ portals, onChoose }: TableProps) {
  const { columns } = words;
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th>{columns.address}</Th>
          <Th>{columns.group}</Th>
          <Th>{columns.interfaces}</Th>
          <Th>{columns.advertised}</Th>
          <Th>{columns.state}</Th>
          <Th screenReaderText={text.datastores.detail.actions.menu} />
        </Tr>
      </Thead>
      <Tbody>
        {portals.map((portal) => (
          <Tr key={portal.address}>
            <Td dataLabel={columns.address}>
              <code>{portal.address}</code>
            </Td>
            <Td dataLabel={columns.group}>{portal.group_tag}</Td>
            <Td dataLabel={columns.interfaces}>{text.common.listed(portal.interfaces)}</Td>
            <Td dataLabel={columns.advertised}>{portal.advertised ?? "–"}</Td>
            <Td dataLabel={columns.state}>
              {portal.problem === "" ? <Label status="success">{words.listening}</Label> : portal.problem}
            </Td>
            <Td isActionCell>
              <ActionsMenu
                row
                label={words.menu(portal.address)}
                choices={[
                  { name: words.change, onChoose: () => onChoose(portal, "change") },
                  { name: words.remove, danger: true, onChoose: () => onChoose(portal, "remove") },
                ]}
              />
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

interface Values {
  readonly address: string;
  readonly group_tag: string;
  readonly advertised: string;
}

interface FieldsProps {
  readonly values: Values;
  readonly change: (part: Partial<Values>) => void;
  readonly problem: ApiProblem | null;
}

function Fields({ values, change, problem }: FieldsProps) {
  return (
    <>
      <TextField
        id="portal-address"
        label={words.address}
        help={words.addressHelp}
        value={values.address}
        onChange={(address) => change({ address })}
        problem={problem?.fields.get("address")}
        required
      />
      <TextField
        id="portal-group"
        label={words.group}
        help={words.groupHelp}
        value={values.group_tag}
        onChange={(group_tag) => change({ group_tag })}
        problem={problem?.fields.get("group_tag")}
        required
      />
      <TextField
        id="portal-advertised"
        label={words.advertised}
        help={words.advertisedHelp}
        value={values.advertised}
        onChange={(advertised) => change({ advertised })}
        problem={problem?.fields.get("advertised")}
      />
    </>
  );
}

/** The portal that a new one must replace, or "": at every address of its family and at its port, it excludes all others. */
function inTheWay(typed: string, portals: readonly Portal[]): string {
  const colon = typed.lastIndexOf(":");
  const every = `${typed.startsWith("[") ? "[::]" : "0.0.0.0"}${typed.slice(colon)}`;
  return colon > 0 && typed !== every && portals.some((portal) => portal.address === every) ? every : "";
}

const isNumber = (typed: string) => /^[0-9]{1,5}$/.test(typed);

function AddPortal({ portals, onClose }: { readonly portals: readonly Portal[]; readonly onClose: () => void }) {
  const [values, change] = useForm<Values>({ address: "", group_tag: "1", advertised: "" });
  const [chosen, setReplaces] = useState<string | null>(null);
  const replaces = chosen ?? inTheWay(values.address, portals);
  return (
    <ChangeDialog
      title={words.createTitle}
      submit={words.createSubmit}
      ready={values.address !== "" && isNumber(values.group_tag)}
      knownFields={FIELDS}
      body={(force) => ({
        address: values.address,
        group_tag: Number(values.group_tag),
        advertised: values.advertised === "" ? null : values.advertised,
        replaces: replaces === "" ? null : replaces,
        force,
      })}
      ask={(body, headers) => api.POST("/api/v1/portals", { body, headers })}
      changes={CHANGES}
      done={words.created(values.address)}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <Fields values={values} change={change} problem={problem} />
          <ChoiceField
            id="portal-replaces"
            label={words.replaces}
            help={words.replacesHelp}
            value={replaces}
            options={[["", words.replacesNone], ...portals.map((portal) => [portal.address, portal.address] as const)]}
            onChange={setReplaces}
            problem={problem?.fields.get("replaces")}
          />
        </>
      )}
    </ChangeDialog>
  );
}

function ChangePortal({ portal, onClose }: Props) {
  const first: Values = {
    address: portal.address,
    group_tag: String(portal.group_tag),
    advertised: portal.advertised ?? "",
  };
  const [values, change] = useForm<Values>(first);
  return (
    <ChangeDialog
      title={words.changeTitle(portal.address)}
      lead={words.changeLead}
      submit={words.changeSubmit}
      ready={values.address !== "" && isNumber(values.group_tag)}
      knownFields={FIELDS}
      body={(force) => {
        const bodyOf = ({ address, group_tag: group, advertised }: Values) => ({
          ...{ address, group_tag: Number(group), advertised: advertised === "" ? null : advertised },
        });
        return { ...changedOf(bodyOf(first), bodyOf(values)), force };
      }}
      ask={(body, headers) =>
        api.PATCH("/api/v1/portals/{portal}", { params: { path: { portal: portal.address } }, body, headers })
      }
      changes={CHANGES}
      done={words.changed(portal.address)}
      onClose={onClose}
    >
      {(problem) => <Fields values={values} change={change} problem={problem} />}
    </ChangeDialog>
  );
}

function RemovePortal({ portal, onClose }: Props) {
  return (
    <ChangeDialog
      danger
      title={words.removeTitle(portal.address)}
      lead={words.removeLead}
      submit={words.removeSubmit}
      body={(force) => ({ force })}
      ask={(query, headers) =>
        api.DELETE("/api/v1/portals/{portal}", { params: { path: { portal: portal.address }, query }, headers })
      }
      changes={CHANGES}
      done={words.removed(portal.address)}
      onClose={onClose}
    />
  );
}
