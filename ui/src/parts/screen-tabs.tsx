// SPDX-License-Identifier: Apache-2.0
/** Tabs of a screen. The address has the shown tab (`?show=`), except the first. */

import { Tab, Tabs, TabTitleText } from "@patternfly/react-core";
import type { ReactNode } from "react";
import { useSearchParams } from "react-router";

/** The tab of the address, otherwise the first; and a function that shows another tab. */
export function useTab<Name extends string>(names: readonly [Name, ...Name[]]): [Name, (name: Name) => void] {
  const [parameters, setParameters] = useSearchParams();
  const shown = names.find((name) => name === parameters.get("show")) ?? names[0];
  return [shown, (name) => setParameters(name === names[0] ? {} : { show: name }, { replace: true })];
}

interface ScreenTabsProps<Name extends string> {
  names: readonly Name[];
  titles: Record<Name, string>;
  label: string;
  shown: Name;
  onShow: (name: Name) => void;
  /** Content of the shown tab. */
  children: ReactNode;
}

export function ScreenTabs<Name extends string>({ names, titles, label, shown, onShow, children }: ScreenTabsProps<Name>) {
  return (
    <>
      <Tabs activeKey={shown} aria-label={label} onSelect={(_event, key) => onShow(key as Name)}>
        {names.map((name) => (
          <Tab
            key={name}
            eventKey={name}
            title={<TabTitleText>{titles[name]}</TabTitleText>}
            tabContentId={`tab-${name}`}
            aria-controls={`tab-${name}`}
          />
        ))}
      </Tabs>
      <section id={`tab-${shown}`} role="tabpanel" aria-label={titles[shown]} className="zv-below">
        {children}
      </section>
    </>
  );
}
