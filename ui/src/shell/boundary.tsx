// SPDX-License-Identifier: Apache-2.0
/** Catches errors of a screen: without it the page would be empty. */

import { Component, type ReactNode } from "react";
import { api } from "../api/client";
import { ApiProblem, connectionProblem } from "../api/problem";
import { ProblemAlert } from "../parts/problem-alert";
import { failureOf, type Failure } from "./load-failure";

const RELOADED = "zvaai-reloaded-at";
const RELOAD_AT_MOST_EVERY_MS = 60_000;
const TRY_EVERY_MS = 3_000;

export class Boundary extends Component<{ readonly children: ReactNode }, { readonly failure: Failure }> {
  override state: { readonly failure: Failure } = { failure: "none" };
  private timer: number | undefined;

  static getDerivedStateFromError(error: unknown): { readonly failure: Failure } {
    return { failure: failureOf(error) };
  }

  override componentDidMount(): void {
    this.recover();
  }

  override componentDidUpdate(): void {
    this.recover();
  }

  override componentWillUnmount(): void {
    window.clearInterval(this.timer);
  }

  /** Reloads the page when the appliance responds. */
  private recover(): void {
    if (this.state.failure === "load") this.timer ??= window.setInterval(() => void reloadIfReached(), TRY_EVERY_MS);
  }

  override render(): ReactNode {
    if (this.state.failure === "none") return this.props.children;
    const problem = this.state.failure === "load" ? connectionProblem() : new ApiProblem(-1, "console", "");
    return <ProblemAlert problem={problem} reading onRetry={() => window.location.reload()} />;
  }
}

async function reloadIfReached(): Promise<void> {
  if (Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0) < RELOAD_AT_MOST_EVERY_MS) return;
  try {
    await api.GET("/api/v1/health/live");
  } catch {
    return;
  }
  sessionStorage.setItem(RELOADED, String(Date.now()));
  window.location.reload();
}
