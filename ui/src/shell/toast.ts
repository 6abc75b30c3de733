// SPDX-License-Identifier: Apache-2.0
/** Selection of toasts. */

import type { ReactNode } from "react";

export interface Toast {
  readonly id: number;
  readonly variant: "success" | "warning" | "danger" | "info";
  readonly title: string;
  readonly body?: ReactNode;
  /** Of several toasts about one subject the newest is shown; without a subject, of several with the same text. */
  readonly about?: string;
}

const MOST = 3;

/** Whether it disappears by itself: a toast that needs action stays. */
export function isPassing({ variant }: Pick<Toast, "variant">): boolean {
  return variant === "success" || variant === "info";
}

function subjectOf({ about, title }: Toast): string {
  return about ?? title;
}

/** The newest is the last. If there are too many, the oldest that would disappear anyway is removed. */
export function shownWith(shown: readonly Toast[], toast: Toast): readonly Toast[] {
  const others = shown.filter((earlier) => subjectOf(earlier) !== subjectOf(toast));
  const first = others.findIndex(isPassing);
  return [...(others.length >= MOST && first >= 0 ? others.toSpliced(first, 1) : others), toast];
}
