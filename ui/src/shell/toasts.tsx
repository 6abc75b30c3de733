// SPDX-License-Identifier: Apache-2.0
/** Toasts that disappear by themselves: started jobs, and their results. */

import { AlertActionCloseButton, AlertGroup } from "@patternfly/react-core";
import { createContext, use, useCallback, useRef, useState, type ReactNode } from "react";
import { Alert } from "../parts/patternfly";
import { text } from "../text";
import { isPassing, shownWith, type Toast } from "./toast";

type Notify = (toast: Omit<Toast, "id">) => void;

const SHOWN_MS = 8_000;
const ToastContext = createContext<Notify>(() => undefined);

export function Toasts({ children }: { readonly children: ReactNode }) {
  const [toasts, setToasts] = useState<readonly Toast[]>([]);
  const last = useRef(0);
  const forget = useCallback((id: number) => setToasts((shown) => shown.filter((toast) => toast.id !== id)), []);
  const notify = useCallback<Notify>((toast) => {
    last.current += 1;
    const id = last.current;
    setToasts((shown) => shownWith(shown, { ...toast, id }));
  }, []);
  return (
    <ToastContext value={notify}>
      {children}
      <AlertGroup isToast isLiveRegion>
        {toasts.map(({ id, variant, title, body }) => (
          <Alert
            key={id}
            variant={variant}
            component="p"
            title={title}
            timeout={isPassing({ variant }) ? SHOWN_MS : false}
            onTimeout={() => forget(id)}
            actionClose={<AlertActionCloseButton title={title} aria-label={text.common.close} onClose={() => forget(id)} />}
          >
            {body}
          </Alert>
        ))}
      </AlertGroup>
    </ToastContext>
  );
}

export function useToast(): Notify {
  return use(ToastContext);
}
