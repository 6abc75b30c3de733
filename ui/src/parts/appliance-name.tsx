// SPDX-License-Identifier: Apache-2.0
/** Which appliance this is: of several open ones, each has its name in its header and in its window's title. */

import { useQuery } from "@tanstack/react-query";
import { loginsQuery } from "../api/queries";
import { text } from "../text";

export function useApplianceName(): string | undefined {
  return useQuery({ ...loginsQuery, staleTime: Infinity }).data?.appliance;
}

export function Logo() {
  const name = useApplianceName();
  return (
    <>
      {text.common.product} {name !== undefined && <span className="zv-appliance">{name}</span>}
    </>
  );
}
