import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../../src/errors.ts";
import { MAX_IMAGE_BYTES } from "../../../src/images/pixels.ts";
import { isPublicAddress } from "../../../src/node/media/public_address.ts";
import { seeded } from "../../support/seeded.ts";
import {
  type Answer,
  IMAGE,
  type MediaServers,
  PUBLIC,
  startMediaServers,
} from "../../support/server/media_servers.ts";

const HOSTILE = process.env.WISP_TEST_FULL === "1" ? 10_000 : 300;

const image: Answer = (response) => response.end(IMAGE);
const redirect =
  (location: string | ((port: number) => string), status = 302): Answer =>
  (response, { port }) => {
    const to = typeof location === "string" ? location : location(port);
    response.writeHead(status, { location: to }).end();
  };

describe("images of listed hosts", () => {
  let servers: MediaServers;
  beforeAll(async () => {
    servers = await startMediaServers();
    const { names, paths } = servers;
    names.set("good.test", [[PUBLIC]]);
    names.set("other.test", [[PUBLIC]]);
    names.set("here.test", [["127.0.0.1"]]);
    names.set("both.test", [[PUBLIC, "127.0.0.1"]]);
    names.set("cloud.test", [["169.254.169.254"]]);
    names.set("home.test", [["192.168.1.1"]]);
    names.set("six.test", [["::1"]]);
    names.set("mapped.test", [["::ffff:7f00:1"]]);
    names.set("local.test", [["fe80::1"]]);
    names.set("nat.test", [["64:ff9b::7f00:1"]]);
    names.set("none.test", [[]]);
    paths.set("/image", image);
    paths.set("/twice", redirect("/once"));
    paths.set(
      "/once",
      redirect((port) => `http://other.test:${port}/image`, 307),
    );
    paths.set("/loop", redirect("/loop"));
    paths.set(
      "/to-here",
      redirect((port) => `http://127.0.0.1:${port}/secret`),
    );
    paths.set(
      "/to-name",
      redirect((port) => `http://here.test:${port}/secret`),
    );
    paths.set(
      "/to-unlisted",
      redirect((port) => `http://evil.test:${port}/image`),
    );
    paths.set("/to-file", redirect("file:///etc/passwd"));
    paths.set("/to-ftp", redirect("ftp://good.test/image"));
    paths.set(
      "/to-user",
      redirect((port) => `http://a:b@good.test:${port}/image`),
    );
    paths.set("/nowhere", (response) => response.writeHead(302).end());
    paths.set("/gone", (response) => response.writeHead(404).end(IMAGE));
    paths.set("/part", (response) => response.writeHead(206).end(IMAGE));
    paths.set("/zipped", (response) =>
      response.writeHead(200, { "content-encoding": "gzip" }).end(IMAGE),
    );
    paths.set("/large", (response) => {
      response.writeHead(200, { "content-length": MAX_IMAGE_BYTES + 1 });
      response.write(IMAGE);
    });
    paths.set("/endless", (response) => {
      const piece = new Uint8Array(2 ** 20);
      const more = () => {
        while (!response.destroyed && response.write(piece));
        if (!response.destroyed) response.once("drain", more);
      };
      more();
    });
    paths.set("/cut", (response) => {
      response.writeHead(200, { "content-length": 100 });
      response.write(IMAGE, () => response.destroy());
    });
    paths.set("/silent", () => {});
    paths.set("/slow", (response) => {
      response.writeHead(200);
      response.write(IMAGE);
    });
    paths.set("/headers", (response) => {
      response.socket!.end(`HTTP/1.1 200 OK\r\nx: ${"a".repeat(2 ** 17)}\r\n\r\n`);
    });
    paths.set("/garbage", (response) => {
      response.socket!.end("\0\0\0 no answer at all");
    });
  });
  afterAll(() => servers.close());
  beforeEach(() => {
    servers.reached.length = 0;
  });

  const LISTED = ["good.test", "other.test", "here.test", "both.test", "cloud.test", "home.test"];
  const MORE = ["six.test", "mapped.test", "local.test", "nat.test", "none.test", "absent.test"];
  const options = () => ({ signal: new AbortController().signal, onBytes: () => {} });
  const get = (url: string) =>
    servers.fetchFrom([...LISTED, ...MORE])(
      url.replaceAll("PORT", String(servers.port)),
      options(),
    );

  test("come, by redirects too, and are counted", async () => {
    expect(await get("http://good.test:PORT/image")).toEqual(IMAGE);
    expect(await get("http://GOOD.test:PORT/twice")).toEqual(IMAGE);
    let count = 0;
    const onBytes = (bytes: number) => {
      count += bytes;
    };
    const url = `http://good.test:${servers.port}/image`;
    await servers.fetchFrom(LISTED)(url, { ...options(), onBytes });
    expect(count).toBe(IMAGE.length);
  });

  test.each([
    ["http://good.test:PORT/loop", "it is more than 3 redirects away"],
    ["http://good.test:PORT/to-here", "it redirects to a URL that has the host 127.0.0.1"],
    ["http://good.test:PORT/to-name", "here.test stands for an address that is not public"],
    ["http://good.test:PORT/to-unlisted", "has the host evil.test, which --allowed-media-domains"],
    ["http://good.test:PORT/to-file", "has the scheme file:, only http and https are fetched"],
    ["http://good.test:PORT/to-ftp", "has the scheme ftp:"],
    ["http://good.test:PORT/to-user", "has a user in it"],
    ["http://good.test:PORT/nowhere", "its server answers 302"],
    ["http://good.test:PORT/gone", "its server answers 404"],
    ["http://good.test:PORT/part", "its server answers 206"],
    ["http://good.test:PORT/zipped", "it comes in the coding gzip"],
    ["http://good.test:PORT/large", "33554433 bytes are more than 33554432"],
    ["http://good.test:PORT/endless", "it has more than 33554432 bytes"],
    ["http://good.test:PORT/cut", "its server ends before it does"],
    ["http://good.test:PORT/silent", "it has not come within 2 seconds"],
    ["http://good.test:PORT/slow", "it has not come within 2 seconds"],
    ["http://good.test:PORT/headers", "does not answer (HPE_HEADER_OVERFLOW)"],
    ["http://good.test:PORT/garbage", "does not answer (HPE_INVALID_CONSTANT)"],
    ["http://here.test:PORT/secret", "here.test stands for an address that is not public"],
    ["http://both.test:PORT/image", "both.test stands for an address that is not public"],
    ["http://cloud.test:PORT/latest/meta-data", "stands for an address that is not public"],
    ["http://home.test:PORT/", "stands for an address that is not public"],
    ["http://six.test:PORT/", "stands for an address that is not public"],
    ["http://mapped.test:PORT/", "stands for an address that is not public"],
    ["http://local.test:PORT/", "stands for an address that is not public"],
    ["http://nat.test:PORT/", "stands for an address that is not public"],
    ["http://none.test:PORT/", "the host none.test has no address"],
    ["http://absent.test:PORT/", "the host absent.test is not found"],
    [
      "http://good.test/image",
      "has the host good.test, which --allowed-media-domains does not list",
    ],
    ["http://sub.good.test:PORT/image", "has the host sub.good.test"],
    ["http://good.test.:PORT/image", "has the host good.test."],
    ["http://good.test:PORT@127.0.0.1:PORT/", "has a user in it"],
    ["http://user@good.test:PORT/image", "has a user in it"],
    ["http://good.test\\@127.0.0.1:PORT/", "has the host good.test"],
    ["http://127.0.0.1:PORT/", "has the host 127.0.0.1"],
    ["http://2130706433:PORT/", "has the host 127.0.0.1"],
    ["http://[::1]:PORT/", "has the host [::1]"],
    ["ftp://good.test:PORT/image", "has the scheme ftp:"],
    ["http://", "its URL is none"],
    [`http://good.test:PORT/${"a".repeat(5000)}`, "its URL has over 4096 characters"],
  ])("%.60s is refused: %s", async (url, message) => {
    const error: Error = await get(url).then(
      () => expect.unreachable(),
      (reason) => reason,
    );
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect(error.message).toMatch(/^Cannot read the image: /);
    expect(error.message).toContain(message);
    expect(servers.reached).toEqual([]);
  });

  test.each(["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "localhost"])(
    "%s is not asked where it is listed",
    async (host) => {
      servers.names.set("localhost", [["127.0.0.1"]]);
      const fetch = servers.fetchFrom([new URL(`http://${host}/`).hostname]);
      const error = await fetch(`http://${host}:${servers.port}/`, options()).catch(
        (reason) => reason,
      );
      expect((error as Error).message).toContain("stands for an address that is not public");
      expect(servers.reached).toEqual([]);
    },
  );

  test("a name that stands for another address by then is asked at the one that was looked at", async () => {
    servers.names.set("turns.test", [[PUBLIC], [PUBLIC], ["127.0.0.1"]]);
    const fetch = servers.fetchFrom(["turns.test"]);
    // Both kinds of records were asked for, and from here on it is private.
    expect(await fetch(`http://turns.test:${servers.port}/image`, options())).toEqual(IMAGE);
    await expect(fetch(`http://turns.test:${servers.port}/image`, options())).rejects.toThrow(
      "stands for an address that is not public",
    );
    expect(servers.reached).toEqual([]);
  });

  test("a client that leaves ends it at once", async () => {
    const leaving = new AbortController();
    const url = `http://good.test:${servers.port}/silent`;
    const asked = servers.fetchFrom(LISTED)(url, { ...options(), signal: leaving.signal });
    leaving.abort(new Error("the client has left"));
    await expect(asked).rejects.not.toBeInstanceOf(InvalidRequestError);
  });

  test("what counts bytes may refuse them", async () => {
    const onBytes = () => {
      throw new Error("no room");
    };
    const url = `http://good.test:${servers.port}/image`;
    const asked = servers.fetchFrom(LISTED)(url, { ...options(), onBytes });
    await expect(asked).rejects.toThrow("no room");
  });

  test(`${HOSTILE} hostile addresses and redirects: errors alone, and no forbidden server is asked`, async () => {
    const random = seeded(27);
    const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)]!;
    const hosts = [
      ...["127.0.0.1", "127.1", "0x7f.1", "017700000001", "2130706433", "127.0.0.3", "0", "[::]"],
      ...["[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:3]", "[fe80::1]", "[2002:7f00:1::]"],
      ...[
        "localhost",
        "169.254.169.254",
        "10.0.0.1",
        "%6c%6f%63%61%6c%68%6f%73%74",
        "１２７.0.0.1",
      ],
      ...["here.test", "both.test", "mapped.test", "nat.test", "six.test", "cloud.test"],
      ...["good.test@127.0.0.1", "127.0.0.1#good.test", "127.0.0.1\\good.test", "good.test."],
    ];
    const schemes = [
      "http://",
      "HTTP://",
      "http:/",
      "http:",
      "http:\\\\",
      "//",
      "file://",
      "gopher://",
    ];
    const tails = ["/", "/secret", "/?good.test", "/#@good.test", "\t/x", "/../../", "/%00"];
    const domains = [...LISTED, ...MORE, "127.0.0.1", "[::1]", "localhost", "127.0.0.3"];
    const fetch = servers.fetchFrom(domains, { seconds: 5 });
    let refused = 0;
    for (let i = 0; i < HOSTILE; i++) {
      const target = `${pick(schemes)}${pick(hosts)}:${servers.port}${pick(tails)}`;
      let url = target;
      if (random() < 0.5) {
        servers.paths.set("/hostile", redirect(encodeURI(target), pick([301, 302, 303, 307, 308])));
        url = `http://good.test:${servers.port}/hostile`;
      }
      const got = await fetch(url, options()).catch((reason: unknown) => reason);
      expect(got, target).toBeInstanceOf(InvalidRequestError);
      refused += 1;
    }
    expect(refused).toBe(HOSTILE);
    expect(servers.reached).toEqual([]);
    expect(await get("http://good.test:PORT/image")).toEqual(IMAGE);
  });
});

test.each([
  ["8.8.8.8", true],
  ["100.63.255.255", true],
  ["172.32.0.1", true],
  ["2606:4700::1111", true],
  ["0.0.0.0", false],
  ["10.255.0.1", false],
  ["100.64.0.1", false],
  ["127.255.255.255", false],
  ["169.254.0.1", false],
  ["172.16.0.1", false],
  ["172.31.255.255", false],
  ["192.168.0.1", false],
  ["198.19.0.1", false],
  ["224.0.0.1", false],
  ["255.255.255.255", false],
  ["::", false],
  ["::1", false],
  ["::ffff:8.8.8.8", false],
  ["64:ff9b::808:808", false],
  ["fc00::1", false],
  ["fe80::1", false],
  ["ff02::1", false],
  ["2001::1", false],
  ["2001:db8::1", false],
  ["2002:808:808::", false],
  ["example.org", false],
])("%s is public: %s", (address, isPublic) => {
  expect(isPublicAddress(address)).toBe(isPublic);
});

test("the machine's own addresses are none of the internet, however they are written", () => {
  const own = [
    {
      ...{ address: "8.8.4.4", family: "IPv4" as const, netmask: "", mac: "", internal: false },
      cidr: null,
    },
    {
      ...{
        address: "2606:4700::1",
        family: "IPv6" as const,
        netmask: "",
        mac: "",
        internal: false,
      },
      ...{ cidr: null, scopeid: 0 },
    },
  ];
  const asked = ["8.8.4.4", "8.8.8.8", "2606:4700:0:0::1", "2606:4700::2"];
  expect(asked.map((address) => isPublicAddress(address, { eth0: own }))).toEqual([
    ...[false, true, false, true],
  ]);
});
