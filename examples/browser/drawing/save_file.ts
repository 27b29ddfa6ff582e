/**
 * Gives the visitor a file that was made on the page. Nothing is sent anywhere.
 *
 * @module
 */

/** Long enough for the browser to begin the download. */
const KEPT_MILLISECONDS = 10_000;

export function saveFile(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT_MILLISECONDS);
}
