import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { localMedia } from "../../../src/node/media/local_media.ts";
import { workerImageService } from "../../../src/node/worker_image_service.ts";
import { createApp } from "../../../src/server/app.ts";
import { fullTest, seeded } from "../../support/devices/gpu.ts";
import { openVisionEngine, picture, VISION_MODEL } from "../../support/engines/vision_engine.ts";
import {
  HOSTILE_HOSTS,
  hostileImage,
  prepareHostileServers,
} from "../../support/images/hostile_images.ts";
import {
  answer,
  errorMessage,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";
import { type MediaServers, startMediaServers } from "../../support/server/media_servers.ts";

const COUNT = fullTest ? 10_000 : 300;
/** Requests at once, and hostile ones from one that means well to the next. */
const AT_ONCE = 8;
const BETWEEN = 25;

describe.skipIf(VISION_MODEL === undefined)("hostile images (needs ../shared/data)", () => {
  let engine: Engine;
  let servers: MediaServers;
  let folder: string;
  beforeAll(async () => {
    servers = await startMediaServers();
    prepareHostileServers(servers);
    folder = await mkdtemp(join(tmpdir(), "wisp-media-"));
    // As a server has it: in a thread, by sharp where that is installed.
    const imageService = workerImageService;
    engine = await openVisionEngine({ cacheDtype: "f32", imageService });
  });
  afterAll(async () => {
    await engine?.close();
    await servers.close();
    await rm(folder, { recursive: true });
  });

  test(`${COUNT} end with errors, nothing is lost, and no forbidden server is asked`, async () => {
    const app = createApp(engine, {
      // Little: what a request leaves behind would soon be missed.
      requestMemory: 4 * 2 ** 20,
      media: {
        readFile: localMedia(folder),
        fetch: servers.fetchFrom(HOSTILE_HOSTS, { seconds: 1 }),
      },
    });
    const ask = (image_data: unknown, count: number) =>
      post(app, "/generate", {
        text: `${"<image>".repeat(count)}What is this?`,
        image_data,
        sampling_params: { temperature: 0, max_new_tokens: 2, ignore_eos: true },
        return_logprob: true,
      });
    const good = Buffer.from(picture("wide.webp")).toString("base64");
    const answerOf = async () => {
      const { meta_info, output_ids } = await answer<GenerateAnswer>(await ask(good, 1));
      return {
        output_ids,
        logprobs: (meta_info as object as Record<string, unknown>).output_token_logprobs,
      };
    };
    const want = await answerOf();
    const random = seeded(41);
    const statuses = new Map<number, number>();
    let [next, beside] = [0, 0];
    const worker = async () => {
      while (next < COUNT) {
        const number = next++;
        if (number % BETWEEN === 0) {
          beside += 1;
          expect(await answerOf(), `beside number ${number}`).toEqual(want);
        }
        const { name, value, mayBeSeen } = hostileImage(number, { random, servers });
        // Some stand behind an image that is none of these.
        const isSecond = random() < 0.3 && typeof value === "string";
        const response = await ask(isSecond ? [good, value] : value, isSecond ? 2 : 1);
        const { status } = response;
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        const body = await response.text();
        if (status === 200) expect(mayBeSeen, `${name}: ${body.slice(0, 200)}`).toBe(true);
        else expect([status, body], name).toEqual([400, expect.stringContaining("message")]);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    const seen = statuses.get(200) ?? 0;
    expect((statuses.get(400) ?? 0) + seen).toBe(COUNT);
    // Some flipped bits change no more than a pixel.
    expect(seen).toBeLessThan(COUNT / 5);
    expect(beside).toBe(Math.ceil(COUNT / BETWEEN));
    // More than there is memory for, when all others have ended.
    const endless = await ask(`http://good.test:${servers.port}/endless`, 1);
    expect([endless.status, await errorMessage(endless)]).toEqual([413, expect.any(String)]);
    expect(servers.reached).toEqual([]);
    const { runningRequests, queuedRequests } = engine.status();
    expect([runningRequests, queuedRequests]).toEqual([0, 0]);
    await engine.flushCache();
    expect(engine.status().usedTokens).toBe(0);
    expect(await answerOf()).toEqual(want);
  });
});
