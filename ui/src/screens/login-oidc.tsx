// SPDX-License-Identifier: Apache-2.0
/** Logins at the OIDC provider. The binding of a login to this tab stays in the tab's storage, which other sites cannot read. */

import { Button } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link, useNavigate } from "react-router";
import { api, unwrap } from "../api/client";
import { asProblem, type ApiProblem } from "../api/problem";
import { loginsQuery } from "../api/queries";
import { Alone } from "../parts/alone";
import { Alert } from "../parts/patternfly";
import { ProblemAlert } from "../parts/problem-alert";
import { Loading } from "../parts/states";
import { useSession } from "../session/session";
import { text } from "../text";

const words = text.session.login;
const KEY = "zvaai-oidc";

interface Begun {
  readonly state: string;
  readonly binding: string;
  readonly from: string;
}

export function OidcButton({ from }: { readonly from: string }) {
  const { data } = useQuery(loginsQuery);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const [pending, setPending] = useState(false);
  if (data?.oidc == null) return null;
  const begin = async () => {
    setPending(true);
    setProblem(null);
    try {
      const query = { origin: window.location.origin };
      const { url, state, binding } = await unwrap(api.GET("/api/v1/session/oidc", { params: { query } }));
      sessionStorage.setItem(KEY, JSON.stringify({ state, binding, from } satisfies Begun));
      window.location.assign(url);
    } catch (error) {
      setProblem(asProblem(error));
      setPending(false);
    }
  };
  return (
    <div className="zv-below">
      {problem !== null && <ProblemAlert problem={problem} reading />}
      <Button variant="secondary" isBlock isLoading={pending} isDisabled={pending} onClick={() => void begin()}>
        {words.with(data.oidc)}
      </Button>
    </div>
  );
}

/** For a page whose session has ended: its input stays, while another tab logs in. */
export function OidcLink() {
  const { data } = useQuery(loginsQuery);
  if (data?.oidc == null) return null;
  return (
    <p className="zv-below">
      <a href="/login" target="_blank" rel="noopener">
        {words.withNew(data.oidc)}
      </a>
    </p>
  );
}

/** The login that this tab has started; returned once. */
function takeBegun(state: string | null): Begun | null {
  const stored = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  const begun = stored === null ? null : (JSON.parse(stored) as Begun);
  return begun?.state === state ? begun : null;
}

/** The provider redirects the browser here. */
export function OidcScreen() {
  const { complete } = useSession();
  const navigate = useNavigate();
  const [problem, setProblem] = useState<string | null>(null);
  const taken = useRef(false);
  useEffect(() => {
    if (taken.current) return;
    taken.current = true;
    const back = new URLSearchParams(window.location.search);
    const begun = takeBegun(back.get("state"));
    const code = back.get("code");
    if (begun === null) setProblem(words.oidcStranger);
    else if (code === null) setProblem(back.get("error_description") ?? back.get("error") ?? words.oidcStranger);
    else
      complete({ binding: begun.binding, state: begun.state, code }).then(
        () => navigate(begun.from, { replace: true }),
        (error: unknown) => setProblem(asProblem(error).message),
      );
  }, [complete, navigate]);
  return (
    <Alone page={words.page} title={words.oidcTitle}>
      {problem === null ? (
        <Loading what={words.oidcTitle} />
      ) : (
        <>
          <Alert variant="danger" isInline component="p" title={problem} role="alert" />
          <p className="zv-below">
            <Link to="/login" replace>
              {words.back}
            </Link>
          </p>
        </>
      )}
    </Alone>
  );
}
