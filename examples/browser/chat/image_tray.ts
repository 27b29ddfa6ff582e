/**
 * The images of the next question: picked, pasted, dropped or taken by the camera, shown small until it is sent.
 *
 * @module
 */
import { announce } from "../app/announce.ts";
import { byId, element } from "../app/dom.ts";
import { icon } from "../app/icons.ts";
import { Camera } from "./camera.ts";

/** Pixels of a side at most: larger ones are made smaller, so that the browser can keep the chat. */
const MOST_PIXELS = 1024;

export class ImageTray {
  readonly #list = byId<HTMLUListElement>("images");
  readonly #button = byId<HTMLButtonElement>("add-image");
  readonly #picker = byId<HTMLInputElement>("image-files");
  readonly #camera = new Camera((picture) => {
    this.#images = [...this.#images, pngOf(picture)];
    this.#show();
  });
  /** Data URLs of PNG files. */
  #images: readonly string[] = [];

  constructor(field: HTMLElement, form: HTMLElement) {
    this.#button.append(icon("image"), "Image");
    this.#button.title = "Show the model an image, which can be pasted or dropped too";
    this.#button.addEventListener("click", () => this.#picker.click());
    this.#picker.addEventListener("change", () => {
      void this.#add([...(this.#picker.files ?? [])]);
      this.#picker.value = "";
    });
    field.addEventListener("paste", (event) => this.#receive(event, event.clipboardData));
    form.addEventListener("dragover", (event) => {
      if (this.#isOffered && event.dataTransfer?.types.includes("Files")) event.preventDefault();
    });
    form.addEventListener("drop", (event) => this.#receive(event, event.dataTransfer));
  }

  /** Whether the model reads images: else there is nothing of all this. */
  offer(readsImages: boolean): void {
    this.#button.hidden = !readsImages;
    this.#camera.offer(readsImages);
    if (!readsImages) this.take();
  }

  /** The images, which are gone from here. */
  take(): readonly string[] {
    const images = this.#images;
    this.#images = [];
    this.#show();
    return images;
  }

  get #isOffered(): boolean {
    return !this.#button.hidden;
  }

  /** Files of images are taken; other things go where they always do. */
  #receive(event: Event, data: DataTransfer | null): void {
    const files = [...(data?.files ?? [])].filter(({ type }) => type.startsWith("image/"));
    if (!this.#isOffered || files.length === 0) return;
    event.preventDefault();
    void this.#add(files);
  }

  async #add(files: readonly File[]): Promise<void> {
    for (const file of files) {
      try {
        this.#images = [...this.#images, pngOf(await createImageBitmap(file))];
      } catch {
        announce(`This browser cannot read ${file.name} as an image`);
      }
    }
    this.#show();
  }

  #show(): void {
    this.#list.hidden = this.#images.length === 0;
    this.#list.replaceChildren(
      ...this.#images.map((url, i) => {
        const name = `Image ${i + 1} of the question`;
        const remove = element(
          "button",
          { type: "button", class: "quiet", "aria-label": `Remove image ${i + 1}` },
          icon("close"),
        );
        remove.addEventListener("click", () => {
          this.#images = this.#images.filter((_, other) => other !== i);
          this.#show();
          this.#button.focus();
        });
        return element("li", {}, element("img", { src: url, alt: name }), remove);
      }),
    );
  }
}

/** A picture as the engine reads it, whatever the browser reads; it is closed. */
function pngOf(picture: ImageBitmap): string {
  const scale = Math.min(1, MOST_PIXELS / Math.max(picture.width, picture.height));
  const width = Math.max(1, Math.round(picture.width * scale));
  const height = Math.max(1, Math.round(picture.height * scale));
  const canvas = element("canvas", { width, height });
  canvas.getContext("2d")!.drawImage(picture, 0, 0, width, height);
  picture.close();
  return canvas.toDataURL("image/png");
}
