import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { ImageAnswer } from "../../src/engine/images/image_messages.ts";
import type { ImageService, SeenImage } from "../../src/engine/images/image_service.ts";
import { localImageService } from "../../src/engine/images/local_image_service.ts";
import {
  RemoteImageService,
  type StartImageThread,
} from "../../src/engine/images/remote_image_service.ts";
import { serveImages } from "../../src/engine/images/serve_images.ts";
import { InvalidRequestError, WorkerError } from "../../src/errors.ts";
import { IMAGE_ALPHAS } from "../../src/images/alpha.ts";
import type { PictureRecipe, PictureView } from "../../src/images/picture_recipe.ts";
import { imageThread, workerImageService } from "../../src/node/worker_image_service.ts";
import { type BuiltWorker, buildWorker } from "../support/engines/built_worker.ts";
import { ALPHA_SIZE, alphaValues } from "../support/images/alpha_pictures.ts";
import { plainPng } from "../support/images/plain_png.ts";
import { writePng } from "../support/images/write_png.ts";
import { until } from "../support/until.ts";

let worker: BuiltWorker;
beforeAll(async () => {
  worker = await buildWorker("image_worker");
});
afterAll(() => worker.remove());

const scale = { rescale: 1 / 255, mean: [0.5, 0.4, 0.3], deviation: [0.2, 0.3, 0.5] };
const recipeOf = (view: PictureView): PictureRecipe => ({ view, scale, layout: { patchSide: 4 } });
const size = { width: 16, height: 8 };
const VIEWS: readonly PictureView[] = [
  { kind: "tiles", tiling: { longestEdge: 24, tileSide: 8, splits: true } },
  { kind: "square", side: 8, shortest: 12 },
  { kind: "whole", size },
  { kind: "padded", tileSide: 8, size },
];
const WHOLE = recipeOf(VIEWS[2]!);

const small = writePng({
  ...{ colorType: 6, bitDepth: 8, width: 20, height: 13 },
  sample: (x, y, c) => (x * 11 + y * 7 + c * 60) % 256,
});
/** Takes a second or so to be decoded. */
const large = plainPng({ width: 5000, height: 4000 });

interface Options {
  readonly start?: StartImageThread;
  readonly seconds?: number;
  readonly alpha?: "drop" | "white";
}

function opened({ start = imageThread(worker.url), seconds, alpha = "drop" }: Options = {}) {
  const given = { start, alpha, readsDrawings: false };
  const service = new RemoteImageService({ ...given, ...(seconds !== undefined && { seconds }) });
  onTestFinished(() => service.close());
  return service;
}

/** What a service makes of an image. */
async function seen(service: ImageService, image: SeenImage, recipe = WHOLE) {
  const reading = await service.open(image);
  try {
    const pictures = [];
    for await (const { patches, grid } of reading.pictures(recipe)) {
      pictures.push({ grid, patches: Array.from(patches) });
    }
    return { hash: reading.hash, pictures };
  } finally {
    reading.close();
  }
}

const outcome = (work: Promise<unknown>) => work.catch((error: unknown) => error);

describe("images in a worker thread", () => {
  test("are the same as in the own thread, and stay their callers'", async () => {
    const pixels = { ...ALPHA_SIZE, rgba: alphaValues() };
    const hashes = new Set<string>();
    for (const alpha of IMAGE_ALPHAS) {
      const [here, there] = [localImageService({ alpha }), opened({ alpha })];
      for (const image of [small, pixels]) {
        const before = structuredClone(image);
        for (const view of VIEWS) {
          const want = await seen(here, image, recipeOf(view));
          expect(await seen(there, image, recipeOf(view))).toEqual(want);
          expect(want.pictures.length).toBe(
            { tiles: 7, padded: 3, square: 1, whole: 1 }[view.kind],
          );
          hashes.add(want.hash);
        }
        expect(image).toEqual(before);
      }
    }
    expect([...hashes].map((hash) => hash.slice(0, -64))).toEqual(["file ", "12 x 6 pixels "]);
  });

  test("leave this thread to others", async () => {
    const active = async (service: ImageService) => {
      const before = performance.eventLoopUtilization();
      await seen(service, large);
      return performance.eventLoopUtilization(before).active;
    };
    const there = opened();
    await seen(there, small);
    const apart = await active(there);
    expect(apart).toBeLessThan(0.3 * (await active(localImageService({ alpha: "drop" }))));
  });

  test("that are malformed are refused, and others not", async () => {
    const service = opened();
    const cut = small.subarray(0, small.length - 40);
    const errors = [
      await outcome(seen(service, cut)),
      await outcome(seen(service, large.subarray(0, 99))),
    ];
    for (const error of errors) expect(error).toBeInstanceOf(InvalidRequestError);
    expect((await seen(service, small)).pictures).toHaveLength(1);
  });

  test("that take too long end their thread and their request alone", async () => {
    const service = opened({ seconds: 0.05 });
    const error = await outcome(seen(service, large));
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect((error as Error).message).toBe("Cannot read the image: it took longer than 0.05 s");
    const patient = opened({ seconds: 60 });
    expect((await seen(patient, small)).pictures).toHaveLength(1);
  });

  test("that take too much memory end their thread and their request alone", async () => {
    let heap = 2;
    const service = opened({ start: (events) => imageThread(worker.url, heap)(events) });
    const error = await outcome(seen(service, large));
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect((error as Error).message).toContain("it took more memory than it may have");
    heap = 64;
    expect((await seen(service, small)).pictures).toHaveLength(1);
  });
});

test("memory that cannot be had is the thread's failure", async () => {
  const answers: ImageAnswer[] = [];
  const take = serveImages((answer) => answers.push(answer), {
    decode: () => Promise.reject(new RangeError("Array buffer allocation failed")),
  });
  const gif = Uint8Array.from(Buffer.from("GIF89a\x01\0\x01\0", "latin1"));
  take({ type: "open", image: gif, alpha: "drop" });
  await until(() => expect(answers).toMatchObject([{ type: "opened" }]));
  take({ type: "decode", recipe: WHOLE });
  await until(() => expect(answers).toHaveLength(2));
  const { type, message } = (answers[1] as Extract<ImageAnswer, { type: "failed" }>).error;
  expect([type, message]).toEqual([
    "WorkerError",
    "Cannot read the image: there is no memory for it (Array buffer allocation failed)",
  ]);
});

describe("a thread of images", () => {
  function watched() {
    const threads: { terminate(): void }[] = [];
    const start: StartImageThread = (events) => {
      const thread = imageThread(worker.url)(events);
      threads.push(thread);
      return thread;
    };
    return { threads, service: opened({ start }) };
  }

  test("that is gone fails what it was at, and the next image has another", async () => {
    const { threads, service } = watched();
    const reading = await service.open(large);
    const pictures = reading.pictures(WHOLE)[Symbol.asyncIterator]();
    const decoding = outcome(pictures.next());
    threads[0]!.terminate();
    const error = await decoding;
    expect(error).toBeInstanceOf(WorkerError);
    expect((error as Error).message).toBe("Cannot read the image: its thread has ended");
    reading.close();
    expect((await seen(service, small)).pictures).toHaveLength(1);
    threads[1]!.terminate();
    await until(async () => {
      expect(await outcome(seen(service, small))).toMatchObject({ pictures: [{}] });
    });
  });

  test("that cannot be started says why", async () => {
    const nowhere = opened({ start: imageThread(new URL("nowhere.mjs", worker.url)) });
    await expect(seen(nowhere, small)).rejects.toThrow(
      /^Cannot read the image: its thread failed: .*nowhere/,
    );
    const none = opened({
      start: () => {
        throw new Error("no thread today");
      },
    });
    await expect(seen(none, small)).rejects.toThrow("Cannot read the image: no thread today");
  });

  test("ends with its service, while it decodes too", async () => {
    const { service } = watched();
    const reading = outcome(seen(service, large));
    await new Promise((resolve) => setTimeout(resolve, 50));
    service.close();
    for (const error of [await reading, await outcome(seen(service, small))]) {
      expect(error).toBeInstanceOf(WorkerError);
      expect((error as Error).message).toBe("Cannot read the image: the image service is closed");
    }
  });
});

test("without a build, as here, images are read in the own thread", async () => {
  const service = workerImageService({ alpha: "drop" });
  expect(service).not.toBeInstanceOf(RemoteImageService);
  expect(await seen(service, small)).toEqual(
    await seen(localImageService({ alpha: "drop" }), small),
  );
});
