// SPDX-License-Identifier: Apache-2.0
/** Lines to type elsewhere, with a button that copies all. */

import { ClipboardCopyButton, CodeBlock, CodeBlockAction, CodeBlockCode } from "@patternfly/react-core";
import { useId, useState } from "react";
import { text } from "../text";

export function CopyLines({ lines, label }: { readonly lines: readonly string[]; readonly label: string }) {
  const id = useId();
  const [copied, setCopied] = useState<string | null>(null);
  const all = lines.join("\n");
  return (
    <CodeBlock
      actions={
        <CodeBlockAction>
          <ClipboardCopyButton
            id={id}
            aria-label={label}
            variant="plain"
            onClick={() => void navigator.clipboard.writeText(all).then(() => setCopied(all))}
          >
            {copied === all ? text.common.copied : label}
          </ClipboardCopyButton>
        </CodeBlockAction>
      }
    >
      <CodeBlockCode>{all}</CodeBlockCode>
    </CodeBlock>
  );
}
