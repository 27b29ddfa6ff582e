/**
 * Dark or light: what the system says, until the visitor says otherwise.
 *
 * @module
 */
import { icon } from "./icons.ts";
import { load, save } from "./saved.ts";

type Theme = "dark" | "light";

/** Sets the page's theme, follows the system's, and lets `button` switch it. */
export function startTheme(button: HTMLButtonElement): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = (): Theme => {
    const choice = load("theme");
    if (choice === "dark" || choice === "light") return choice;
    return system.matches ? "dark" : "light";
  };
  const show = (theme: Theme) => {
    document.documentElement.dataset.theme = theme;
    button.replaceChildren(icon(theme === "dark" ? "sun" : "moon"));
    const label = theme === "dark" ? "Switch to light colours" : "Switch to dark colours";
    button.setAttribute("aria-label", label);
    button.title = label;
  };
  system.addEventListener("change", () => show(chosen()));
  button.addEventListener("click", () => {
    const next: Theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    save("theme", next);
    show(next);
  });
  show(chosen());
}
