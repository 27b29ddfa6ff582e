/** The installed program refuses by name every option whose capability is missing. */
import { afterAll, describe, test } from "vitest";
import { RESERVED_OPTIONS } from "../../src/node/options/reserved_options.ts";
import { stopAll, wisp } from "./support/wisp.ts";

afterAll(stopAll);

describe.concurrent("options whose capability is missing are refused and named", () => {
  test.for(Object.entries(RESERVED_OPTIONS))("%s", async ([, { flags }], { expect }) => {
    const args = ["launch_server", flags[0], "other"];
    const { code, stdout, stderr } = await wisp(args);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(new RegExp(`^Cannot use option ${flags[0]}.*not supported yet\n$`));
  });
});
