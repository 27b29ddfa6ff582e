/**
 * The chats at the left, settings and the engine's panel at the right: columns where the window is
 * wide, else drawers over the page, one at a time.
 *
 * @module
 */
import { byId } from "./dom.ts";
import { type IconName, icon } from "./icons.ts";
import { load, save } from "./saved.ts";

interface Drawer {
  readonly id: string;
  readonly opener: string;
  readonly closer?: string;
  readonly icon: IconName;
  readonly label: string;
  readonly side: "left" | "right";
}

const CHATS: Drawer = {
  id: "chats",
  opener: "open-chats",
  icon: "menu",
  label: "Chats",
  side: "left",
};
const DRAWERS: readonly Drawer[] = [
  CHATS,
  {
    ...{ id: "settings-drawer", opener: "open-settings", closer: "close-settings" },
    ...{ icon: "sliders", label: "Settings", side: "right" },
  },
  {
    ...{ id: "panel-drawer", opener: "open-panel", closer: "close-panel" },
    ...{ icon: "gauge", label: "Engine", side: "right" },
  },
];

/** Where a column is beside the conversation; as in layout.css. */
const WIDE = { left: "(min-width: 56rem)", right: "(min-width: 80rem)" } as const;

export class Drawers {
  readonly #scrim = byId("scrim");

  constructor() {
    for (const drawer of DRAWERS) this.#prepare(drawer);
    this.#scrim.addEventListener("click", () => this.closeOverlays());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.#scrim.hidden) return;
      // Over the page a drawer is closed first; the answer goes on.
      event.stopImmediatePropagation();
      this.closeOverlays();
    });
    matchMedia(WIDE.right).addEventListener("change", () => this.closeOverlays());
    matchMedia(WIDE.left).addEventListener("change", () => this.#showChats());
    this.#showChats();
  }

  /** Those that lie over the page; columns stay. */
  closeOverlays(): void {
    for (const drawer of DRAWERS) {
      const isOpen = !byId(drawer.id).hidden;
      if (isOpen && !isWide(drawer.side)) this.#toggle(drawer, false);
    }
  }

  /** As the visitor left them where they are a column; over the page only when asked for. */
  #showChats(): void {
    this.#toggle(CHATS, isWide("left") && load("chats-open") !== false);
  }

  #prepare(drawer: Drawer): void {
    const opener = byId(drawer.opener);
    opener.replaceChildren(icon(drawer.icon));
    opener.setAttribute("aria-label", drawer.label);
    opener.title = drawer.label;
    const closer = drawer.closer === undefined ? undefined : byId(drawer.closer);
    closer?.replaceChildren(icon("close"));
    closer?.setAttribute("aria-label", `Close ${drawer.label.toLowerCase()}`);
    opener.addEventListener("click", () => {
      const isOpen = byId(drawer.id).hidden === true;
      this.#toggle(drawer, isOpen);
      if (drawer === CHATS && isWide("left")) save("chats-open", isOpen);
    });
    closer?.addEventListener("click", () => this.#toggle(drawer, false));
    this.#toggle(drawer, false);
  }

  #toggle(drawer: Drawer, isOpen: boolean): void {
    const node = byId(drawer.id);
    const hadFocus = node.contains(document.activeElement);
    if (isOpen) this.#closeBeside(drawer);
    node.hidden = !isOpen;
    byId(drawer.opener).setAttribute("aria-expanded", String(isOpen));
    this.#scrim.hidden = !DRAWERS.some(({ id, side }) => !byId(id).hidden && !isWide(side));
    if (isOpen && !isWide(drawer.side)) node.querySelector<HTMLElement>("button, a")?.focus();
    if (!isOpen && hadFocus) byId(drawer.opener).focus();
  }

  /** There is room for one at the right, and for one over the page. */
  #closeBeside(drawer: Drawer): void {
    for (const other of DRAWERS) {
      if (other === drawer || byId(other.id).hidden) continue;
      if (other.side === drawer.side || !isWide(other.side)) this.#toggle(other, false);
    }
  }
}

function isWide(side: Drawer["side"]): boolean {
  return matchMedia(WIDE[side]).matches;
}
