// SPDX-License-Identifier: Apache-2.0
/** Catches what a screen throws: no empty page, no stack trace. */

import { Component, type ReactNode } from "react";
import { ApiProblem, connectionProblem } from "../api/problem";
import { ProblemAlert } from "../parts/problem-alert";

type Failure = "none" | "code" | "load";

/** What browsers say if a part of the console can't be loaded: no network, or an updated appliance, which has other files. */
const LOAD = /dynamically imported module|importing a module script|preload CSS/i;
const RELOADED = "zvaai-reloaded-at";
const RELOAD_AT_MOST_EVERY_MS = 60_000;
const TRY_EVERY_MS = 3_000;

export function failureOf(error: unknown): Failure {
  return LOAD.test(String(error)) ? "load" : "code";
}

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

  /** Reloads the page as soon as the appliance answers. */
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
    await fetch("/favicon.svg", { cache: "no-store" });
  } catch {
    return;
  }
  sessionStorage.setItem(RELOADED, String(Date.now()));
  window.location.reload();
}
