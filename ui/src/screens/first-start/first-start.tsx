// SPDX-License-Identifier: Apache-2.0
/**
 * The first start, step by step. The appliance's state decides the next step, so the wizard can be left and continued anywhere.
 */

import { Button, ProgressStep, ProgressStepper } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Navigate, useNavigate } from "react-router";
import { poolsQuery, setupQuery } from "../../api/queries";
import { Alone } from "../../parts/alone";
import { SecretDialog } from "../../parts/secret";
import { QueryBoundary } from "../../parts/states";
import { sessionQuery } from "../../session/session";
import { LoginAgain } from "../../shell/login-again";
import { text } from "../../text";
import { AccountStep } from "./account-step";
import { PoolStep } from "./pool-step";
import { PortalsStep } from "./portals-step";

const words = text.session.setup;
const STEPS = ["account", "pool", "portals", "done"] as const;
type Step = (typeof STEPS)[number];

export function FirstStartScreen() {
  const setup = useQuery(setupQuery);
  const session = useQuery(sessionQuery);
  // Here and not in its step: the step ends with the login, and the page must not change before the key is read.
  const [recoveryKey, setRecoveryKey] = useState<string | null>(null);
  return (
    <Alone page={words.page} title={words.title} wide>
      <p className="zv-lead">{words.lead}</p>
      <QueryBoundary query={setup} what={words.page}>
        {({ needed }) => (
          <QueryBoundary query={session} what={words.page}>
            {({ session: who }) =>
              needed || (who === null && recoveryKey !== null) ? (
                <Framed step="account" onRecoveryKey={setRecoveryKey} />
              ) : who === null ? (
                <Navigate to="/login" replace />
              ) : (
                <AfterAccount admin={who.role === "admin"} />
              )
            }
          </QueryBoundary>
        )}
      </QueryBoundary>
      {recoveryKey !== null && (
        <SecretDialog
          made={{ name: text.system.configuration.recoveryKey, secret: recoveryKey }}
          words={words.account.recoveryKey}
          onClose={() => setRecoveryKey(null)}
        />
      )}
      {session.data?.ended && <LoginAgain />}
    </Alone>
  );
}

/**
 * Only administrators set up pool and portals; if a pool exists, nothing is left to do. `admin` belongs to the response with the
 * session: useMay can be updated a moment later, and a redirect is final.
 */
function AfterAccount({ admin }: { readonly admin: boolean }) {
  const pools = useQuery(poolsQuery);
  const [passed, setPassed] = useState<readonly Step[]>([]);
  const [hadPool, setHadPool] = useState<boolean | null>(null);
  if (!admin) return <Navigate to="/" replace />;
  return (
    <QueryBoundary query={pools} what={words.steps.pool}>
      {(loaded) => {
        if (hadPool === null) setHadPool(loaded.length > 0);
        const left = STEPS.filter(
          (step) =>
            step !== "account" &&
            !passed.includes(step) &&
            !(step === "pool" && loaded.length > 0) &&
            // If a pool existed at the beginning, the machine was already set up: only the account was missing.
            !(step === "portals" && hadPool === true),
        );
        return <Framed step={left[0] ?? "done"} onPass={(step) => setPassed([...passed, step])} />;
      }}
    </QueryBoundary>
  );
}

interface FramedProps {
  readonly step: Step;
  readonly onPass?: (step: Step) => void;
  readonly onRecoveryKey?: (key: string) => void;
}

function Framed({ step, onPass, onRecoveryKey }: FramedProps) {
  const now = STEPS.indexOf(step);
  return (
    <>
      <ProgressStepper isCenterAligned aria-label={words.progress} className="zv-steps">
        {STEPS.map((name, index) => (
          <ProgressStep
            key={name}
            id={`step-${name}`}
            titleId={`step-${name}-title`}
            isCurrent={index === now}
            variant={index < now || step === "done" ? "success" : index === now ? "info" : "pending"}
            aria-label={words.steps[name]}
          >
            {words.steps[name]}
          </ProgressStep>
        ))}
      </ProgressStepper>
      {step === "account" && onRecoveryKey && <AccountStep onRecoveryKey={onRecoveryKey} />}
      {step === "pool" && <PoolStep onLater={() => onPass?.("pool")} />}
      {step === "portals" && <PortalsStep onDone={() => onPass?.("portals")} />}
      {step === "done" && <Done />}
    </>
  );
}

function Done() {
  const navigate = useNavigate();
  return (
    <>
      <h2 className="zv-step-title">{words.done.title}</h2>
      <p>{words.done.lead}</p>
      <div className="zv-buttons">
        <Button onClick={() => void navigate("/hosts")}>{words.done.hosts}</Button>
        <Button variant="secondary" onClick={() => void navigate("/datastores/new")}>
          {words.done.create}
        </Button>
        <Button variant="secondary" onClick={() => void navigate("/readiness")}>
          {words.done.connect}
        </Button>
        <Button variant="secondary" onClick={() => void navigate("/")}>
          {words.done.dashboard}
        </Button>
      </div>
    </>
  );
}
