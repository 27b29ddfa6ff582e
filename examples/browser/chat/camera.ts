/**
 * The camera, shown live below the question until a picture is taken.
 *
 * @module
 */
import { announce } from "../app/announce.ts";
import { byId, element } from "../app/dom.ts";
import { icon } from "../app/icons.ts";

export class Camera {
  readonly #button = byId<HTMLButtonElement>("use-camera");
  readonly #place = byId("camera");
  readonly #take: (picture: ImageBitmap) => void;
  #stream: MediaStream | undefined;

  /** @param take Is given each picture, and closes it. */
  constructor(take: (picture: ImageBitmap) => void) {
    this.#take = take;
    this.#button.append(icon("camera"), "Camera");
    this.#button.title = "Show the model what the camera sees";
    this.#button.addEventListener("click", () => void this.#open());
  }

  /** Pages that are no secure context have no camera. */
  offer(isOffered: boolean): void {
    this.#button.hidden = !isOffered || navigator.mediaDevices === undefined;
    if (!isOffered) this.#close();
  }

  async #open(): Promise<void> {
    if (this.#stream !== undefined) return this.#close();
    try {
      const video = { facingMode: "environment" };
      this.#stream = await navigator.mediaDevices.getUserMedia({ video });
    } catch {
      announce("This page may not use a camera, or there is none");
      return;
    }
    const live = element("video", { "aria-label": "What the camera sees" });
    live.muted = true;
    live.playsInline = true;
    live.srcObject = this.#stream;
    const button = (name: string, onclick: () => void) =>
      element("button", { type: "button", class: "toggle", onclick }, name);
    this.#place.replaceChildren(
      live,
      button("Take picture", () => void this.#shoot(live)),
      button("Close camera", () => this.#close()),
    );
    this.#place.hidden = false;
    await live.play().catch(() => {});
  }

  async #shoot(live: HTMLVideoElement): Promise<void> {
    try {
      this.#take(await createImageBitmap(live));
    } catch {
      announce("The camera shows nothing yet");
      return;
    }
    this.#close();
  }

  #close(): void {
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    this.#stream = undefined;
    this.#place.hidden = true;
    this.#place.replaceChildren();
  }
}
