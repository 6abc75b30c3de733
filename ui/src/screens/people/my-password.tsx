// SPDX-License-Identifier: Apache-2.0
/** Change of the user's password. It ends the user's other sessions. */

import { Checkbox } from "@patternfly/react-core";
import { useState } from "react";
import { api } from "../../api/client";
import { ChangeDialog } from "../../parts/change-dialog";
import { TextField } from "../../parts/field";
import { text } from "../../text";
import { NewPassword, usePassword } from "./new-password";

const words = text.people.profile;

export default function MyPassword({ onClose }: { readonly onClose: () => void }) {
  const { password, good, field } = usePassword();
  const [current, setCurrent] = useState("");
  const [endTokens, setEndTokens] = useState(false);
  const body = { current, new: password, end_tokens: endTokens };
  return (
    <ChangeDialog
      title={words.title}
      lead={words.lead}
      submit={words.submit}
      ready={current !== "" && good}
      knownFields={["current", "new", "password"]}
      body={() => body}
      ask={(body, headers) => api.POST("/api/v1/session/password", { body, headers })}
      changes={[]}
      done={words.done}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <TextField
            id="current-password"
            label={words.current}
            type="password"
            value={current}
            onChange={setCurrent}
            problem={problem?.at("current")}
            autoComplete="current-password"
            required
          />
          <NewPassword {...field} label={words.next} problem={problem?.at("new") ?? problem?.at("password")} />
          <Checkbox
            id="end-own-tokens"
            label={words.endTokens}
            isChecked={endTokens}
            onChange={(_event, checked) => setEndTokens(checked)}
          />
        </>
      )}
    </ChangeDialog>
  );
}
