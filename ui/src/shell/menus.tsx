// SPDX-License-Identifier: Apache-2.0
/** Menus of the masthead: user, language, light or dark. */

import { Dropdown, DropdownItem, DropdownList, MenuToggle, type MenuToggleElement } from "@patternfly/react-core";
import AdjustIcon from "@patternfly/react-icons/dist/esm/icons/adjust-icon";
import LanguageIcon from "@patternfly/react-icons/dist/esm/icons/language-icon";
import UserIcon from "@patternfly/react-icons/dist/esm/icons/user-icon";
import { lazy, Suspense, useState, type ReactNode, type Ref } from "react";
import { useNavigate } from "react-router";
import { useSession } from "../session/session";
import { text } from "../text";
import { chosen, LANGUAGES, type Language } from "../text/chosen";
import { chooseLanguage } from "./language";
import { chooseTheme, readTheme, type Theme } from "./theme";
import { useToast } from "./toasts";

const MyPassword = lazy(() => import("../screens/people/my-password"));
const MyTotp = lazy(() => import("../screens/people/my-totp"));

interface MenuProps {
  readonly label: string;
  readonly icon: ReactNode;
  readonly shown?: string;
  readonly children: (close: () => void) => ReactNode;
}

function Menu({ label, icon, shown, children }: MenuProps) {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <Dropdown
      isOpen={open}
      onOpenChange={setOpen}
      onSelect={close}
      // A closing dialog returns the focus to the element that had it before.
      shouldFocusToggleOnSelect
      popperProps={{ position: "right" }}
      toggle={(ref: Ref<MenuToggleElement>) => (
        <MenuToggle
          ref={ref}
          variant={shown === undefined ? "plain" : "plainText"}
          icon={icon}
          isExpanded={open}
          aria-label={label}
          onClick={() => setOpen(!open)}
        >
          {shown}
        </MenuToggle>
      )}
    >
      <DropdownList>{children(close)}</DropdownList>
    </Dropdown>
  );
}

const THEMES: readonly Theme[] = ["system", "light", "dark"];

export function ThemeMenu() {
  const [theme, setTheme] = useState(readTheme);
  return (
    <Menu label={text.common.theme.label} icon={<AdjustIcon />}>
      {() =>
        THEMES.map((choice) => (
          <DropdownItem
            key={choice}
            isSelected={choice === theme}
            onClick={() => {
              chooseTheme(choice);
              setTheme(choice);
            }}
          >
            {text.common.theme[choice]}
          </DropdownItem>
        ))
      }
    </Menu>
  );
}

/** Each language by its own name, for users who cannot read the present one. */
export function LanguageMenu({ isNamed = false }: { readonly isNamed?: boolean }) {
  const name = LANGUAGES[chosen.language];
  return (
    <Menu label={text.common.language(name)} icon={<LanguageIcon />} shown={isNamed ? name : undefined}>
      {() =>
        (Object.keys(LANGUAGES) as Language[]).map((choice) => (
          <DropdownItem key={choice} isSelected={choice === chosen.language} onClick={() => chooseLanguage(choice)}>
            <span lang={choice}>{LANGUAGES[choice]}</span>
          </DropdownItem>
        ))
      }
    </Menu>
  );
}

export function UserMenu() {
  const { session, logOut } = useSession();
  const navigate = useNavigate();
  const notify = useToast();
  const [changing, setChanging] = useState<"password" | "totp" | readonly string[] | null>(null);
  const close = () => setChanging(null);
  if (session === null) return null;
  return (
    <>
      <Menu
        label={text.common.user.menu(session.name)}
        icon={<UserIcon />}
        shown={text.common.user.shown(session.name, session.role)}
      >
        {() => (
          <>
            {session.source === "local" && (
              <DropdownItem onClick={() => setChanging("password")}>{text.common.user.password}</DropdownItem>
            )}
            {session.source !== "oidc" && (
              <DropdownItem onClick={() => setChanging("totp")}>{text.common.user.totp}</DropdownItem>
            )}
            <DropdownItem
              onClick={() =>
                void logOut()
                  .then(() => navigate("/login"))
                  .catch(() => notify({ variant: "danger", title: text.common.user.notLoggedOut }))
              }
            >
              {text.common.user.logOut}
            </DropdownItem>
          </>
        )}
      </Menu>
      {changing !== null && (
        <Suspense fallback={null}>
          {changing === "password" ? (
            <MyPassword onClose={close} />
          ) : (
            <MyTotp codes={changing === "totp" ? null : changing} onCodes={setChanging} onClose={close} />
          )}
        </Suspense>
      )}
    </>
  );
}
