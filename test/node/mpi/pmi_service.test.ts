/** What MPI asks its launcher while it starts, line by line, without MPI. */
import { Duplex } from "node:stream";
import { describe, expect, test } from "vitest";
import { type KeyValues, PmiService } from "../../../src/node/mpi/pmi_service.ts";

/** The stream of one rank: what it says, and what it is answered. */
function rankStream() {
  const answers: string[] = [];
  const stream = new Duplex({
    read() {},
    write(chunk, _, done) {
      answers.push(...String(chunk).split("\n").slice(0, -1));
      done();
    },
  });
  const say = async (text: string) => {
    stream.push(text);
    await new Promise((resolve) => setImmediate(resolve));
    return answers.splice(0);
  };
  return { stream, say };
}

type Fence = (own: KeyValues) => Promise<KeyValues>;

function serve(ranks: number, { nodes = 1, fence = (async (own) => own) as Fence } = {}) {
  const failures: string[] = [];
  const service = new PmiService({
    size: nodes * ranks,
    nodes,
    localRanks: ranks,
    fence,
    onFailure: (rank, problem) => failures.push(`${rank}: ${problem}`),
  });
  const streams = Array.from({ length: ranks }, (_, rank) => {
    const one = rankStream();
    service.serve(one.stream, rank);
    return one.say;
  });
  return { streams, failures };
}

describe("the service of the process management interface", () => {
  test("answers what MPICH asks", async () => {
    const [say] = serve(4, { nodes: 2 }).streams;
    const transcript = [
      [
        "cmd=init pmi_version=1 pmi_subversion=1",
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
      ],
      ["cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"],
      ["cmd=get_appnum", "cmd=appnum rc=0 appnum=0"],
      ["cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=wisp"],
      ["cmd=get_universe_size", "cmd=universe_size rc=0 size=8"],
      [
        "cmd=get kvsname=wisp key=PMI_process_mapping",
        "cmd=get_result rc=0 msg=success value=(vector,(0,2,4))",
      ],
      ["cmd=get kvsname=wisp key=card-1", "cmd=get_result rc=-1 msg=key_not_found value=unknown"],
      ["cmd=put kvsname=wisp key=card-0 value=a=b;c", "cmd=put_result rc=0 msg=success"],
      ["cmd=get kvsname=wisp key=card-0", "cmd=get_result rc=0 msg=success value=a=b;c"],
      ["cmd=put kvsname=wisp key=card-0 value=d", "cmd=put_result rc=-1 msg=key_is_taken"],
      [`cmd=put key=a value=${"x".repeat(1025)}`, "cmd=put_result rc=-1 msg=too_long"],
      ["cmd=put key=__proto__ value=x", "cmd=put_result rc=0 msg=success"],
      ["cmd=get key=constructor", "cmd=get_result rc=-1 msg=key_not_found value=unknown"],
      ["cmd=spawn", "cmd=spawn_result rc=-1 msg=unknown_command"],
      ["what is this", "cmd=unknown_result rc=-1 msg=unknown_command"],
      ["cmd=finalize", "cmd=finalize_ack rc=0"],
    ] as const;
    for (const [line, answer] of transcript) expect(await say!(`${line}\n`)).toEqual([answer]);
  });

  test("reads lines wherever the stream is cut", async () => {
    const [say] = serve(1).streams;
    expect(await say!("cmd=get_app")).toEqual([]);
    expect(await say!("num\ncmd=get_universe_size\ncmd=")).toEqual([
      "cmd=appnum rc=0 appnum=0",
      "cmd=universe_size rc=0 size=1",
    ]);
  });

  test("lets ranks go on when all of them wait, with what all nodes have put", async () => {
    const given: KeyValues[] = [];
    const { streams } = serve(2, {
      nodes: 2,
      fence: async (own) => {
        given.push(own);
        return { ...own, far: "there" };
      },
    });
    const [first, second] = streams;
    await first!("cmd=put key=near value=here\n");
    expect(await first!("cmd=barrier_in\n")).toEqual([]);
    expect(await second!("cmd=barrier_in\n")).toEqual(["cmd=barrier_out rc=0"]);
    expect(given).toEqual([{ near: "here" }]);
    expect(await second!("cmd=get key=far\n")).toEqual([
      "cmd=get_result rc=0 msg=success value=there",
    ]);
    // Only what is new goes to the others at the next one.
    await second!("cmd=barrier_in\n");
    await first!("cmd=barrier_in\n");
    expect(given).toEqual([{ near: "here" }, {}]);
  });

  test("keeps no more of a rank than ranks put", async () => {
    const [say] = serve(1).streams;
    const puts = Array.from({ length: 257 }, (_, i) => `cmd=put key=k${i} value=v\n`);
    const answers = await say!(puts.join(""));
    expect(answers.at(-2)).toBe("cmd=put_result rc=0 msg=success");
    expect(answers.at(-1)).toBe("cmd=put_result rc=-1 msg=too_many");
  });

  test("tells of a rank that cannot go on, and of one that never ends a line", async () => {
    const { streams, failures } = serve(2);
    await streams[1]!("cmd=abort exitcode=1\n");
    await streams[0]!("x".repeat(5000));
    expect(failures).toEqual([
      "1: MPI has ended it",
      "0: it sent a line without end while MPI started",
    ]);
  });
});
