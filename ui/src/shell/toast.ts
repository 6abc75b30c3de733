// SPDX-License-Identifier: Apache-2.0
/** Which of several news are shown. */

import type { ReactNode } from "react";

export interface Toast {
  readonly id: number;
  readonly variant: "success" | "warning" | "danger" | "info";
  readonly title: string;
  readonly body?: ReactNode;
  /** Of several about one thing the newest is shown; without a subject, of several with the same words. */
  readonly about?: string;
}

const MOST = 3;

/** Whether it goes by itself: who has to act reads at leisure. */
export function isPassing({ variant }: Pick<Toast, "variant">): boolean {
  return variant === "success" || variant === "info";
}

function subjectOf({ about, title }: Toast): string {
  return about ?? title;
}

/** The newest is the last. Of too many the oldest that would go by itself goes now. */
export function shownWith(shown: readonly Toast[], toast: Toast): readonly Toast[] {
  const others = shown.filter((earlier) => subjectOf(earlier) !== subjectOf(toast));
  const first = others.findIndex(isPassing);
  return [...(others.length >= MOST && first >= 0 ? others.toSpliced(first, 1) : others), toast];
}
