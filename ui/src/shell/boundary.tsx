// SPDX-License-Identifier: Apache-2.0
/** Catches what a screen throws: nobody is left before an empty page, and nobody is shown a stack. */

import { Component, type ReactNode } from "react";
import { ApiProblem } from "../api/problem";
import { ProblemAlert } from "../parts/problem-alert";

interface State {
  readonly failed: boolean;
}

export class Boundary extends Component<{ readonly children: ReactNode }, State> {
  override state: State = { failed: false };

  static getDerivedStateFromError(): State {
    return { failed: true };
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    const problem = new ApiProblem(-1, "console", "");
    return <ProblemAlert problem={problem} reading onRetry={() => window.location.reload()} />;
  }
}
