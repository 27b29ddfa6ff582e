/**
 * Broken, oversized and disguised images, and addresses that lead inside, as values of `image_data`.
 *
 * @module
 */
import { deflateSync } from "node:zlib";
import { type MediaServers, PUBLIC } from "../server/media_servers.ts";
import { joinPng, type PngKind, writePng } from "./write_png.ts";

export interface HostileImage {
  readonly name: string;
  readonly value: unknown;
  /** Whether it may turn out to be a picture all the same. */
  readonly mayBeSeen?: boolean;
}

interface Draw {
  readonly random: () => number;
  readonly servers: MediaServers;
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const dataUrl = (bytes: Uint8Array, type = "image/png") => `data:${type};base64,${base64(bytes)}`;

const KINDS: readonly PngKind[] = [
  { colorType: 2, bitDepth: 8 },
  { colorType: 6, bitDepth: 16, interlaced: true },
  { colorType: 3, bitDepth: 4, interlaced: true },
  { colorType: 0, bitDepth: 1 },
  { colorType: 4, bitDepth: 8, interlaced: true },
];
const PALETTE = Array.from({ length: 48 }, (_, i) => 5 * i);
const WHOLE = KINDS.map((kind) =>
  writePng({
    ...kind,
    width: 37,
    height: 29,
    ...(kind.colorType === 3 && { palette: PALETTE }),
    sample: (x, y, c) => (x * 7 + y * 3 + c * 11) % 2 ** Math.min(kind.bitDepth, 8),
  }),
);

function header(width: number, height: number, kind = [8, 2]): readonly [string, Uint8Array] {
  const body = Buffer.alloc(13);
  body.writeUInt32BE(width, 0);
  body.writeUInt32BE(height, 4);
  body.set([...kind, 0, 0, 0], 8);
  return ["IHDR", body];
}

/** Rows that grow to a thousand times what they come in. */
const BOMB = deflateSync(Buffer.alloc(2 ** 24));
const END = ["IEND", Buffer.alloc(0)] as const;
const TAILS = ["/", "/secret", "/?good.test", "/#@good.test", "/../../", "/%00"];
const HOSTS = [
  ...["127.0.0.1", "127.1", "0x7f.1", "017700000001", "2130706433", "127.0.0.3", "0", "[::]"],
  ...["[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:3]", "[fe80::1]", "[2002:7f00:1::]"],
  ...["localhost", "169.254.169.254", "10.0.0.1", "%6c%6f%63%61%6c%68%6f%73%74"],
  ...["here.test", "both.test", "mapped.test", "six.test", "cloud.test", "absent.test"],
  ...["good.test@127.0.0.1", "127.0.0.1#good.test", "127.0.0.1\\good.test", "good.test."],
  ...["user:word@good.test", "good.test:22", "sub.good.test"],
];

type Kind = (draw: Draw) => Omit<HostileImage, "name">;

const pick = <T>(random: () => number, all: readonly T[]): T =>
  all[Math.floor(random() * all.length)]!;

function flipped({ random }: Draw, bits: number): Uint8Array {
  const bytes = Uint8Array.from(pick(random, WHOLE));
  for (let i = 0; i < bits; i++) bytes[Math.floor(random() * bytes.length)]! ^= 1 << (random() * 8);
  return bytes;
}

function png(...chunks: (readonly [string, Uint8Array])[]): string {
  return base64(joinPng(chunks));
}

/** An address of a server on this machine, as one of the open internet would give it. */
function address({ random, servers }: Draw): string {
  return `http://${pick(random, HOSTS)}:${servers.port}${pick(random, TAILS)}`;
}

const KINDS_OF_IMAGES: Readonly<Record<string, Kind>> = {
  "cut off": ({ random }) => {
    const bytes = pick(random, WHOLE);
    return { value: base64(bytes.subarray(0, Math.floor(random() * (bytes.length - 13)))) };
  },
  "with bits flipped": (draw) => ({
    value: base64(flipped(draw, 1 + Math.floor(draw.random() * 8))),
    mayBeSeen: true,
  }),
  "with a tail of noise": ({ random }) => {
    const noise = Uint8Array.from({ length: 200 }, () => Math.floor(random() * 256));
    const bytes = pick(random, WHOLE);
    return { value: base64(Buffer.concat([bytes.subarray(0, -40), noise])), mayBeSeen: true };
  },
  "noise behind a signature": ({ random }) => {
    const starts = [
      "\x89PNG\r\n\x1a\n",
      "\xff\xd8\xff\xe0",
      "GIF89a",
      "RIFF\0\0\0\0WEBPVP8 ",
      "BM",
    ];
    const noise = Buffer.from(Array.from({ length: 90 }, () => Math.floor(random() * 256)));
    return { value: base64(Buffer.concat([Buffer.from(pick(random, starts), "latin1"), noise])) };
  },
  "a bomb of rows": () => ({ value: png(header(64, 64), ["IDAT", BOMB], END), mayBeSeen: true }),
  "a bomb of pixels": ({ random }) => ({
    value: png(header(2 ** 15, pick(random, [2 ** 15, 1025, 2 ** 31])), ["IDAT", BOMB], END),
  }),
  "a large picture without rows": ({ random }) => ({
    value: png(header(1000 + Math.floor(random() * 500), 1000), [
      "IDAT",
      deflateSync(Buffer.alloc(9)),
    ]),
  }),
  "of no size": ({ random }) => ({ value: png(header(0, Math.floor(random() * 9)), END) }),
  "of another kind of pixel": ({ random }) => ({
    value: png(header(4, 4, [pick(random, [0, 3, 7, 32]), pick(random, [1, 5, 7, 9])]), END),
  }),
  "of chunks that lie about their length": ({ random }) => {
    const bytes = Uint8Array.from(pick(random, WHOLE));
    bytes.set([0x7f, 0xff, 0xff, Math.floor(random() * 256)], 33);
    return { value: base64(bytes) };
  },
  "a crowd of chunks": () => ({
    value: png(
      header(2, 2),
      ...Array.from({ length: 9000 }, () => ["teXt", Buffer.alloc(0)] as const),
    ),
  }),
  "of another type": ({ random }) => ({
    value: dataUrl(
      Buffer.from("<svg onload='x'/>"),
      pick(random, ["image/svg+xml", "text/html", "x/y"]),
    ),
  }),
  "a data URL in a data URL": ({ random }) => ({
    value: dataUrl(Buffer.from(dataUrl(pick(random, WHOLE)))),
  }),
  "no base64": ({ random }) => ({
    value: pick(random, [
      "",
      "====",
      "data:image/png,abc",
      "data:;base64,",
      "%%%",
      "\0".repeat(50),
    ]),
  }),
  "no text": ({ random }) => ({
    value: pick<unknown>(random, [5, true, {}, { url: "x" }, [[["x"]]], [null, 7]]),
  }),
  "a name of a file": ({ random }) => ({
    value: pick(random, [
      "/etc/passwd",
      "file:///etc/passwd",
      "../../x.png",
      "file://host/x.png",
      "x.png",
    ]),
  }),
  "an address": (draw) => ({ value: address(draw) }),
  "an address that redirects": (draw) => {
    const { random, servers } = draw;
    const path = `/to/${Math.floor(random() * 1e9)}`;
    const to = encodeURI(address(draw));
    const status = pick(random, [301, 302, 303, 307, 308]);
    servers.paths.set(path, (response) => {
      servers.paths.delete(path);
      response.writeHead(status, { location: to }).end();
    });
    return { value: `http://good.test:${servers.port}${path}` };
  },
  "a name that stands for another address each time": ({ random, servers }) => {
    const name = "turns.test";
    const inside = pick(random, ["127.0.0.1", "127.0.0.3", "::1", "::ffff:7f00:1", "169.254.1.1"]);
    // Of both kinds of records, then of those of the next time.
    servers.names.set(name, [[PUBLIC, inside], [inside]]);
    return { value: `http://${name}:${servers.port}/secret` };
  },
  "an address of a broken answer": ({ random, servers }) => ({
    value: `http://good.test:${servers.port}${pick(random, Object.keys(BROKEN))}`,
  }),
};

/** What the open server answers there. */
const BROKEN: Readonly<Record<string, Parameters<MediaServers["paths"]["set"]>[1]>> = {
  "/gone": (response) => response.writeHead(404).end(),
  "/text": (response) => response.end("no image at all"),
  "/cut": (response) => {
    response.writeHead(200, { "content-length": 100 });
    response.write("\x89PNG", () => response.destroy());
  },
  "/large": (response) => response.writeHead(200, { "content-length": 2 ** 40 }).write("x"),
  "/zipped": (response) => response.writeHead(200, { "content-encoding": "br" }).end("x"),
  "/loop": (response) => response.writeHead(302, { location: "/loop" }).end(),
  "/garbage": (response) => response.socket!.end("\0\0 nothing of HTTP"),
};

/** Answers that never end take the server's time limit each. */
const UNENDING: typeof BROKEN = {
  "/slow": (response) => {
    response.writeHead(200);
    response.write("\x89PNG");
  },
  "/silent": () => {},
};

/** Takes what memory there is for requests, for a moment. */
const endless: Parameters<MediaServers["paths"]["set"]>[1] = (response) => {
  const piece = new Uint8Array(2 ** 18);
  const more = () => {
    while (!response.destroyed && response.write(piece));
    if (!response.destroyed) response.once("drain", more);
  };
  more();
};

export const HOSTILE_HOSTS = [
  ...[
    "good.test",
    "here.test",
    "both.test",
    "mapped.test",
    "six.test",
    "cloud.test",
    "absent.test",
  ],
  ...["turns.test", "localhost", "127.0.0.1", "[::1]", "127.0.0.3"],
];

/** Has the servers answer what the images below ask of them. */
export function prepareHostileServers({ names, paths }: MediaServers): void {
  const addresses: Readonly<Record<string, readonly string[]>> = {
    "good.test": [PUBLIC],
    "here.test": ["127.0.0.1"],
    "both.test": [PUBLIC, "127.0.0.1"],
    "mapped.test": ["::ffff:7f00:1"],
    "six.test": ["::1"],
    "cloud.test": ["169.254.169.254"],
    localhost: ["127.0.0.1"],
  };
  for (const [name, all] of Object.entries(addresses)) names.set(name, [all]);
  for (const [path, answer] of Object.entries({ ...BROKEN, ...UNENDING, "/endless": endless }))
    paths.set(path, answer);
}

/** The kinds in turn; one in a hundred is an answer that never ends. */
export function hostileImage(number: number, draw: Draw): HostileImage {
  if (number % 100 === 99) {
    const path = pick(draw.random, Object.keys(UNENDING));
    return { name: path, value: `http://good.test:${draw.servers.port}${path}` };
  }
  const all = Object.entries(KINDS_OF_IMAGES);
  const [name, kind] = all[number % all.length]!;
  return { name, ...kind(draw) };
}
