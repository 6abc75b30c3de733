// SPDX-License-Identifier: Apache-2.0
/** Search over everything: a button of the masthead, and the key /. */

import { Button, List, ListItem, ModalBody, ModalHeader, ModalVariant } from "@patternfly/react-core";
import SearchIcon from "@patternfly/react-icons/dist/esm/icons/search-icon";
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useEffect, useState } from "react";
import { Link, useNavigate } from "react-router";
import { datastoresQuery, hostsQuery, jobsQuery, poolsQuery, snapshotSearchQuery } from "../api/queries";
import { TextField } from "../parts/field";
import { Modal } from "../parts/patternfly";
import { text } from "../text";
import { find } from "./find";

const words = text.search;
const SHOWN = 20;
const TYPING = "input, textarea, select, [contenteditable], [role=dialog], [role=menu]";

export function Search() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { target } = event;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector("[role=dialog]") !== null || (target instanceof Element && target.closest(TYPING) !== null))
        return;
      event.preventDefault();
      setOpen(true);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  return (
    <>
      <Button variant="plain" aria-label={words.open} icon={<SearchIcon />} onClick={() => setOpen(true)} />
      {open && <SearchDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function SearchDialog({ onClose }: { readonly onClose: () => void }) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const { data: stores } = useQuery(datastoresQuery);
  const { data: hosts } = useQuery(hostsQuery);
  const { data: pools } = useQuery(poolsQuery);
  const { data: jobs } = useQuery(jobsQuery);
  const { data: snapshots } = useQuery(snapshotSearchQuery(useDeferredValue(typed.trim())));
  const matches = find(typed, { stores, hosts, pools, jobs, snapshots });
  const shown = matches.slice(0, SHOWN);
  return (
    <Modal
      isOpen
      variant={ModalVariant.small}
      position="top"
      onClose={onClose}
      aria-labelledby="search-title"
      elementToFocus="#search-all"
    >
      <ModalHeader title={words.title} labelId="search-title" />
      <ModalBody>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const [first] = matches;
            if (first === undefined) return;
            onClose();
            void navigate(first.to);
          }}
        >
          <TextField id="search-all" label={words.field} help={words.help} value={typed} onChange={setTyped} />
        </form>
        <p role="status">{typed.trim() === "" ? "" : words.matches(shown.length, matches.length)}</p>
        {shown.length > 0 && (
          <List isPlain aria-label={words.results}>
            {shown.map(({ kind, name, to }) => (
              <ListItem key={`${to} ${name}`}>
                <Link to={to} onClick={onClose}>
                  {name}
                </Link>{" "}
                <span className="zv-subtle">{kind}</span>
              </ListItem>
            ))}
          </List>
        )}
      </ModalBody>
    </Modal>
  );
}
