/** Pages that go by UCX, between messages that go another way. */
import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ChannelMessage } from "../../../src/disaggregation/channel.ts";
import { UnsupportedError } from "../../../src/errors.ts";
import { buildUcxShim } from "../../../src/node/ucx/build_ucx_shim.ts";
import { UcxChannel } from "../../../src/node/ucx/ucx_channel.ts";
import { UcxLibrary } from "../../../src/node/ucx/ucx_library.ts";
import { channelPair } from "../../support/exactness/apart.ts";
import { lackOfUcx } from "../../support/ucx.ts";
import { until } from "../../support/until.ts";

const lack = lackOfUcx();
if (lack !== undefined) console.log(`Pages over UCX are not tested: ${lack}`);

const MOST = 8 * 2 ** 20;
type Tag = Parameters<UcxLibrary["forget"]>[0];

let ucx: UcxLibrary;
beforeAll(async () => {
  if (lack === undefined) ucx = await UcxLibrary.open("lo");
});
afterAll(() => ucx?.close());

/** Two ends, of which the first sends pages to the second. */
function pairOf({ isRequired = false, maxMessage = MOST, arrivalTimeout = 60_000 } = {}) {
  const [one, other] = channelPair();
  /** What goes as all messages do. */
  const said: ChannelMessage[] = [];
  const send = one.send.bind(one);
  one.send = (message) => {
    said.push(message);
    send(message);
  };
  const detours: string[] = [];
  const onDetour = (problem: string) => detours.push(problem);
  const options = { ucx, isRequired, maxMessage, arrivalTimeout, onDetour };
  const ends = [one, other].map((inner) => new UcxChannel(inner, options));
  const [from, to] = ends as [UcxChannel, UcxChannel];
  const heard: ChannelMessage[] = [];
  const closed: string[] = [];
  const signs = { count: 0 };
  to.listen({
    onMessage: (message) => heard.push(message),
    onHeard: () => {
      signs.count += 1;
    },
    onClose: (why) => closed.push(why),
  });
  from.listen({ onMessage: () => {}, onClose: (why) => closed.push(why) });
  return { from, to, heard, closed, signs, said, detours };
}

function bytesOf(length: number, seed: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + seed) % 253);
}

describe.skipIf(lack !== undefined)("pages over UCX", () => {
  test("come whole and in order, small and large, between texts", async () => {
    const { from, to, heard } = pairOf({ isRequired: true });
    from.way.take(to.way.offer);
    const sent: ChannelMessage[] = [];
    for (const [i, length] of [1, 16, 8000, 2 ** 20, 3, 4 * 2 ** 20 + 5, 70_000].entries()) {
      const bytes = bytesOf(length, i);
      sent.push(bytes.slice(), `{"text":${i}}`);
      from.send(bytes);
      // What is sent is sent as it was.
      bytes.fill(0);
      from.send(`{"text":${i}}`);
    }
    await until(() => expect(heard).toHaveLength(sent.length));
    for (const [i, message] of heard.entries()) {
      // Two large lists are compared for long, one by one.
      const same = Buffer.from(message as string).equals(Buffer.from(sent[i] as string));
      expect(same, `message ${i}`).toBe(true);
    }
    from.close("done");
  });

  test("go as other messages do until the other end's offer is taken", async () => {
    const { from, heard } = pairOf();
    from.send(bytesOf(9, 1));
    from.send("{}");
    await until(() => expect(heard).toEqual([bytesOf(9, 1), "{}"]));
  });

  test("go by it once something has arrived, in order with those that went before", async () => {
    const { from, to, heard, closed, said, detours } = pairOf();
    from.way.take(to.way.offer);
    let sent = 0;
    const sendOne = () => {
      sent += 1;
      from.send(bytesOf(500, sent));
    };
    sendOne();
    expect(said).toEqual(["#?", bytesOf(500, 1)]);
    await until(() => {
      sendOne();
      expect(said.at(-1)).toBe("#500");
    });
    sendOne();
    await until(() => expect(heard).toHaveLength(sent));
    for (const [i, message] of heard.entries()) expect(message).toEqual(bytesOf(500, i + 1));
    expect([closed, detours]).toEqual([[], []]);
    from.close("done");
  });

  test("go as other messages do where UCX does not get through, unless they may not", async () => {
    const program = ["packaging/run_module.mjs", "test/support/ucx_address.ts"];
    const { stdout, stderr } = spawnSync(process.execPath, program, { encoding: "utf8" });
    // Of a process that has ended.
    const address = /^address (\S+)$/m.exec(stdout)?.[1];
    expect(address, stderr).toBeDefined();
    const offerOf = (to: UcxChannel) => JSON.stringify({ ...JSON.parse(to.way.offer), address });
    const { from, to, heard, closed, said, detours } = pairOf();
    from.way.take(offerOf(to));
    await until(() => expect(detours).toEqual([expect.stringMatching(/^.*UCX cannot /)]));
    from.send(bytesOf(500, 1));
    from.send("{}");
    await until(() => expect(heard).toEqual([bytesOf(500, 1), "{}"]));
    expect([closed, said]).toEqual([[], ["#?", bytesOf(500, 1), "{}"]]);
    from.close("done");
    const strict = pairOf({ isRequired: true });
    strict.from.way.take(offerOf(strict.to));
    await until(() => expect(strict.closed).toHaveLength(2));
    expect([strict.closed[0], strict.detours]).toEqual([expect.stringMatching(/UCX cannot /), []]);
  });

  test("do not wait for an end that never says that something has arrived", async () => {
    const { from, to, said, detours, closed } = pairOf({ arrivalTimeout: 30 });
    // By a tag that nothing is received for.
    from.way.take(JSON.stringify({ ...JSON.parse(to.way.offer), low: 1 }));
    await until(() => expect(detours).toEqual(["nothing has arrived by UCX within 0.03 s"]));
    from.send(bytesOf(5, 1));
    expect(said.at(-1)).toEqual(bytesOf(5, 1));
    // A way is proved once.
    from.send("#?");
    await until(() => expect(closed).toEqual(Array(2).fill("it sends a message of ? bytes")));
  });

  test("that come for an end that has left are taken away once another one leaves", async () => {
    const { peer, connected } = ucx.connect(ucx.address);
    await connected;
    const [left, other] = [101, 102].map((low) => ({ low, high: 7 })) as [Tag, Tag];
    const send = (tag: Tag, byte: number) => ucx.send(peer, tag, [Uint8Array.of(byte)]);
    ucx.forget(left);
    await send(left, 1);
    await send(other, 2);
    // Behind the other one, which has come too.
    expect(await ucx.receive(other, 1)).toEqual(Uint8Array.of(2));
    ucx.forget(other);
    const next = ucx.receive(left, 1);
    await send(left, 3);
    expect(await next).toEqual(Uint8Array.of(3));
    ucx.disconnect(peer);
  });

  test("go to the end that they are for", async () => {
    const pairs = [1, 2, 3].map(() => pairOf({ isRequired: true }));
    for (const { from, to } of pairs) from.way.take(to.way.offer);
    for (let round = 0; round < 20; round++) {
      for (const [i, { from }] of pairs.entries()) from.send(bytesOf(5000 * (i + 1), round));
    }
    for (const [i, { heard, from }] of pairs.entries()) {
      await until(() => expect(heard).toHaveLength(20));
      for (const [round, message] of heard.entries()) {
        expect(Buffer.compare(message as Uint8Array, bytesOf(5000 * (i + 1), round))).toBe(0);
      }
      from.close("done");
    }
  });

  test("that are larger than may be, or none, end the connection", async () => {
    for (const note of ["#1001", "#0", "#-5", "#x", "#1e9", "#"]) {
      const { from, to, heard, closed } = pairOf({ maxMessage: 1000 });
      expect(from.way.fits(to.way.offer)).toBe(true);
      from.send(note);
      await until(() => expect(closed).toHaveLength(2));
      expect(closed[0]).toMatch(/^it sends a message of .* bytes$/);
      expect(heard).toEqual([]);
    }
  });

  test("of another length than was told end the connection", async () => {
    const { from, to, heard, closed } = pairOf();
    const { address, low, high } = JSON.parse(to.way.offer);
    const given = new Uint8Array(Buffer.from(address, "base64"));
    const { peer, connected } = ucx.connect(given);
    await connected;
    from.send("#10");
    await ucx.send(peer, { low, high }, [bytesOf(4, 0)]);
    await until(() => expect(closed).toHaveLength(2));
    expect(closed[0]).toContain("it has another length than was told");
    expect(heard).toEqual([]);
    ucx.disconnect(peer);
  });

  test("hold up signs of life of the other end as messages only, and not for ever", async () => {
    const { from, to, heard, closed, signs } = pairOf();
    const { address, low, high } = JSON.parse(to.way.offer);
    from.send("#4");
    for (let beats = 0; beats < 5; beats++) from.send('{"type":"beat"}');
    await until(() => expect(signs.count).toBe(6));
    expect([heard, closed]).toEqual([[], []]);
    const { peer } = ucx.connect(new Uint8Array(Buffer.from(address, "base64")));
    await ucx.send(peer, { low, high }, [bytesOf(4, 0)]);
    await until(() => expect(heard).toHaveLength(6));
    ucx.disconnect(peer);
    from.close("done");

    const late = pairOf({ arrivalTimeout: 50 });
    expect(late.from.way.fits(late.to.way.offer)).toBe(true);
    late.from.send("#4");
    await until(() => expect(late.closed).toHaveLength(2));
    expect(late.closed[0]).toBe("pages have not come by UCX within 0.05 s");
  });

  test("that never come are not waited for once the connection has ended", async () => {
    const { from, to, heard, closed } = pairOf();
    expect(from.way.fits(to.way.offer)).toBe(true);
    from.send("#10");
    from.send("{}");
    await until(() => expect(closed).toEqual([]));
    from.close("it leaves");
    await until(() => expect(closed).toEqual(["it leaves"]));
    expect(heard).toEqual([]);
    to.close("twice");
  });

  test("fail where there is no such connection, and after the end", async () => {
    const sent = ucx.send(12_345_678, { low: 1, high: 2 }, [bytesOf(3, 0)]);
    await expect(sent).rejects.toThrow("UCX cannot send: its connection is closed");
    const other = await UcxLibrary.open("lo");
    expect(other).toBe(ucx);
    other.close();
    const { from, to } = pairOf();
    expect(from.way.fits(to.way.offer)).toBe(true);
  });

  test.each(["", "{}", "null", "[1]", '{"version":"0","low":1,"high":2,"address":"x"}'])(
    "are not offered by %j",
    (offer) => {
      expect(pairOf().from.way.fits(offer)).toBe(false);
    },
  );
});

test("a machine without a compiler says what to install", () => {
  const built = () => buildUcxShim({ env: { PATH: "/nowhere" }, cache: "/nowhere" });
  expect(built).toThrow(UnsupportedError);
  expect(built).toThrow('on Debian "apt-get install gcc libucx-dev"');
});

/** Stands for UCX where nothing is to come by it: it keeps what it is asked to receive. */
function fakeUcx() {
  const asked: number[] = [];
  const receive = (_: unknown, length: number) => {
    asked.push(length);
    return new Promise<never>(() => {});
  };
  const own = { version: "1", address: new Uint8Array(4), forget() {}, disconnect() {} };
  return { asked, ucx: { ...own, receive } as unknown as UcxLibrary };
}

describe("of what a stranger says", () => {
  test("nothing is received by an end that offers no way, nor before it does", async () => {
    const { asked, ucx } = fakeUcx();
    const [inner, stranger] = channelPair();
    const channel = new UcxChannel(inner, { ucx, isRequired: false, maxMessage: MOST });
    const heard: ChannelMessage[] = [];
    channel.listen({ onMessage: (message) => heard.push(message), onClose: () => {} });
    for (const text of ["#4194304", "{}"]) stranger.send(text);
    await until(() => expect(heard).toEqual(["#4194304", "{}"]));
    expect(asked).toEqual([]);
    expect(channel.way.offer).toContain('"version":"1"');
    stranger.send("#7");
    await until(() => expect(asked).toEqual([7]));
  });

  test("no more waits behind pages that do not come than may be unsent", async () => {
    const { asked, ucx } = fakeUcx();
    const [inner, stranger] = channelPair();
    const channel = new UcxChannel(inner, { ucx, isRequired: false, maxMessage: 2 ** 29 });
    const closed: string[] = [];
    channel.listen({ onMessage: () => {}, onClose: (why) => closed.push(why) });
    expect(channel.way.offer).not.toBe("");
    for (let i = 0; i < 3; i++) stranger.send(`#${2 ** 29 - 256}`);
    await until(() => expect(closed).toHaveLength(1));
    expect(closed[0]).toContain("bytes wait behind pages that do not come");
    expect(asked).toHaveLength(2);
  });
});
