// SPDX-License-Identifier: Apache-2.0
import { ActionGroup, Button, Form } from "@patternfly/react-core";
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useState, type FormEvent } from "react";
import { api, unwrap } from "../../api/client";
import { setupQuery } from "../../api/queries";
import { SHORTEST_PASSWORD, TextField } from "../../parts/field";
import { useFocus } from "../../parts/focus";
import { ProblemAlert } from "../../parts/problem-alert";
import { useSubmission } from "../../parts/use-submission";
import { useSession } from "../../session/session";
import { text } from "../../text";

const words = text.session.setup.account;

interface Body {
  readonly code: string;
  readonly name: string;
  readonly password: string;
}

interface Props {
  /** Gets the recovery key, which the service does not store. */
  readonly onRecoveryKey: (key: string) => void;
}

/** Creates the first administrator, and logs in. */
export function AccountStep({ onRecoveryKey }: Props) {
  const client = useQueryClient();
  const { logIn } = useSession();
  const [code, setCode] = useState("");
  const [name, setName] = useState("admin");
  const [password, setPassword] = useState("");
  const [repeated, setRepeated] = useState("");
  const [checked, setChecked] = useState(false);
  const { send, pending, problem, fieldProblem } = useSubmission(
    useCallback(
      async (body: Body) => {
        const made = await unwrap(api.POST("/api/v1/setup", { body: body }));
        onRecoveryKey(made.recovery_key);
        try {
          await logIn({ name: body.name, password: body.password });
        } finally {
          await client.invalidateQueries({ queryKey: setupQuery.queryKey });
        }
      },
      [client, logIn, onRecoveryKey],
    ),
  );

  useFocus("code");

  const missing = (value: string) => (checked && value === "" ? words.missing : undefined);
  const problems = {
    code: missing(code) ?? fieldProblem("code") ?? (problem?.isSession ? sentenceOf(problem.message) : undefined),
    name: missing(name) ?? fieldProblem("name"),
    password: missing(password) ?? (checked && password.length < SHORTEST_PASSWORD ? words.short : fieldProblem("password")),
    repeated: checked && repeated !== password ? words.repeatWrong : undefined,
  };

  function submitted(event: FormEvent): void {
    event.preventDefault();
    setChecked(true);
    if (code !== "" && name !== "" && password.length >= SHORTEST_PASSWORD && repeated === password)
      void send({ code, name, password });
  }

  return (
    <>
      <h2 className="zv-step-title">{words.title}</h2>
      <p>{words.lead}</p>
      <Form onSubmit={submitted} noValidate className="zv-form">
        {problem !== null && !problem.isSession && <ProblemAlert problem={problem} knownFields={["code", "name", "password"]} />}
        <TextField
          id="code"
          label={words.code}
          help={words.codeHelp}
          value={code}
          onChange={setCode}
          problem={problems.code}
          required
        />
        <TextField
          id="name"
          label={words.name}
          value={name}
          onChange={setName}
          problem={problems.name}
          autoComplete="username"
          required
        />
        <TextField
          id="password"
          label={words.password}
          help={words.passwordHelp}
          type="password"
          value={password}
          onChange={setPassword}
          problem={problems.password}
          autoComplete="new-password"
          required
        />
        <TextField
          id="repeated"
          label={words.repeat}
          type="password"
          value={repeated}
          onChange={setRepeated}
          problem={problems.repeated}
          autoComplete="new-password"
          required
        />
        <ActionGroup>
          <Button type="submit" isLoading={pending} isDisabled={pending}>
            {words.submit}
          </Button>
        </ActionGroup>
      </Form>
    </>
  );
}

function sentenceOf(detail: string): string {
  return `${detail.charAt(0).toUpperCase()}${detail.slice(1)}.`;
}
