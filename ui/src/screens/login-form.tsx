// SPDX-License-Identifier: Apache-2.0
/** Name, password and code, on the login page and over a page whose session has ended. */

import { ActionGroup, Button, Form } from "@patternfly/react-core";
import { useCallback, useState, type FormEvent } from "react";
import { asProblem } from "../api/problem";
import { TextField } from "../parts/field";
import { useFocus } from "../parts/focus";
import { Alert } from "../parts/patternfly";
import { ProblemAlert } from "../parts/problem-alert";
import { useSecondsLeft } from "../parts/use-seconds-left";
import { useSubmission } from "../parts/use-submission";
import { useSession } from "../session/session";
import { text } from "../text";

interface Body {
  readonly name: string;
  readonly password: string;
  readonly code?: string;
}

export function LoginForm({ submit, onDone }: { readonly submit: string; readonly onDone?: () => void }) {
  const { session, logIn } = useSession();
  const [name, setName] = useState(session?.name ?? "");
  const [password, setPassword] = useState("");
  // Null until the service reports that this user has two-factor login.
  const [code, setCode] = useState<string | null>(null);
  const { send, pending, problem, fieldProblem } = useSubmission(
    useCallback(
      async (body: Body) => {
        try {
          await logIn(body);
          setPassword("");
          setCode(null);
        } catch (error) {
          const refusal = asProblem(error);
          if (refusal.at("code") !== undefined) setCode("");
          // A wrong code is cleared; without a response the same request is sent again.
          else if (refusal.isSession && body.code !== undefined) setCode("");
          else if (refusal.isSession) setPassword("");
          throw error;
        }
      },
      [logIn],
    ),
    onDone,
  );
  const words = text.session.login;
  const locked = problem?.status === 429;
  const secondsLeft = useSecondsLeft(locked ? problem.retryAt : 0);
  useFocus(code !== null ? "login-code" : session === null ? "login-name" : "login-password");

  function submitted(event: FormEvent): void {
    event.preventDefault();
    void send({ name, password, ...(code === null ? {} : { code }) });
  }

  return (
    <Form onSubmit={submitted}>
      {problem !== null &&
        (problem.isSession ? (
          <Alert variant="danger" isInline component="p" title={code === null ? words.wrong : words.wrongCode} role="alert" />
        ) : locked ? (
          // The button counts down: screen readers would read a message each second.
          secondsLeft > 0 && <Alert variant="danger" isInline component="p" title={words.locked} role="alert" />
        ) : (
          problem.at("code") === undefined && <ProblemAlert problem={problem} reading knownFields={["name", "password"]} />
        ))}
      <TextField
        id="login-name"
        label={words.name}
        value={name}
        onChange={setName}
        problem={fieldProblem("name")}
        autoComplete="username"
        required
      />
      <TextField
        id="login-password"
        label={words.password}
        type="password"
        value={password}
        onChange={setPassword}
        problem={fieldProblem("password")}
        autoComplete="current-password"
        required
      />
      {code !== null && (
        <TextField
          id="login-code"
          label={words.code}
          help={words.codeHelp}
          value={code}
          onChange={setCode}
          autoComplete="one-time-code"
          required
        />
      )}
      <ActionGroup>
        <Button
          type="submit"
          isBlock
          isLoading={pending}
          isDisabled={pending || secondsLeft > 0 || name === "" || password === "" || code === ""}
        >
          {secondsLeft > 0 ? words.wait(secondsLeft) : submit}
        </Button>
      </ActionGroup>
    </Form>
  );
}
