/**
 * Ways to name a model that is in no list: a line of text, a folder of this machine.
 *
 * @module
 */
import { element } from "../app/dom.ts";
import { icon } from "../app/icons.ts";

interface TextForm {
  readonly label: string;
  readonly placeholder: string;
  readonly submit: string;
  readonly take: (text: string) => void;
}

let count = 0;

export function textForm({ label, placeholder, submit, take }: TextForm): HTMLFormElement {
  const id = `pick-${count++}`;
  const field = element("input", { id, placeholder, required: true, autocomplete: "off" });
  field.spellcheck = false;
  const form = element(
    "form",
    { class: "line" },
    element("label", { for: id }, label),
    field,
    element("button", { type: "submit" }, submit),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    take(field.value.trim());
  });
  return form;
}

/** A folder that is picked, or dropped upon the form; all its files are given. */
export function filesForm(take: (files: File[], name: string) => void): HTMLElement {
  const input = element("input", {
    id: "folder",
    type: "file",
    multiple: true,
    webkitdirectory: true,
    class: "hidden",
  });
  const area = element(
    "label",
    { class: "drop", for: "folder" },
    icon("folder"),
    element("span", {}, "Pick a folder of this machine, or drop one here"),
    input,
  );
  input.addEventListener("change", () => {
    const files = [...(input.files ?? [])];
    if (files.length > 0) take(files, folderOf(files));
    input.value = "";
  });
  area.addEventListener("dragover", (event) => {
    event.preventDefault();
    area.toggleAttribute("data-over", true);
  });
  area.addEventListener("dragleave", () => area.removeAttribute("data-over"));
  area.addEventListener("drop", async (event) => {
    event.preventDefault();
    area.removeAttribute("data-over");
    const { files, name } = await droppedFiles(event.dataTransfer);
    if (files.length > 0) take(files, name);
  });
  return area;
}

function folderOf([first]: readonly File[]): string {
  return first?.webkitRelativePath.split("/")[0] || "picked folder";
}

/** Files that were dropped, and those at the top of a dropped folder. */
async function droppedFiles(transfer: DataTransfer | null) {
  const entries = [...(transfer?.items ?? [])].map((item) => item.webkitGetAsEntry());
  const plain = [...(transfer?.files ?? [])];
  const folder = entries.find((entry) => entry?.isDirectory) as
    | FileSystemDirectoryEntry
    | undefined;
  if (folder === undefined) return { files: plain, name: "dropped files" };
  return { files: await filesAtTop(folder), name: folder.name };
}

async function filesAtTop(folder: FileSystemDirectoryEntry): Promise<File[]> {
  const reader = folder.createReader();
  const files: File[] = [];
  // A reader gives its entries in batches, the last of which is empty.
  for (;;) {
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) => {
      reader.readEntries(resolve, reject);
    });
    if (batch.length === 0) return files;
    for (const entry of batch) {
      if (!entry.isFile) continue;
      files.push(
        await new Promise<File>((resolve, reject) => {
          (entry as FileSystemFileEntry).file(resolve, reject);
        }),
      );
    }
  }
}
