// SPDX-License-Identifier: Apache-2.0
/**
 * Newer and older pages of a long list. The service returns the cursor of the next page only, so cursors of earlier pages are
 * stored.
 */

import { Button } from "@patternfly/react-core";

interface Props {
  readonly words: { readonly pages: string; readonly newer: string; readonly older: string };
  /** Cursors of all pages but the first. */
  readonly cursors: readonly string[];
  readonly next: string | null | undefined;
  readonly onChange: (cursors: readonly string[]) => void;
}

export function Pager({ words, cursors, next, onChange }: Props) {
  return (
    <nav aria-label={words.pages} className="zv-buttons">
      <Button
        variant="secondary"
        // The attribute `disabled` would take the focus from users of the keyboard.
        isAriaDisabled={cursors.length === 0}
        onClick={() => onChange(cursors.slice(0, -1))}
      >
        {words.newer}
      </Button>
      <Button variant="secondary" isAriaDisabled={next == null} onClick={() => next != null && onChange([...cursors, next])}>
        {words.older}
      </Button>
    </nav>
  );
}
