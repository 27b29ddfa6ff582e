/**
 * What the first rank of a server shares with servers of the other kind: the rooms are where the engine
 * and its pages are, and the server in front of it is told of them.
 *
 * @module
 */
import type { GenerationEngine } from "../../generation.ts";
import { layerOver } from "../../server/engine_layer.ts";
import type { RoleOptions } from "../disaggregation/disaggregation_options.ts";
import type { StartedEngine } from "../serve/start_engine.ts";
import type { StartReport } from "../serve/start_report.ts";
import type { FromRank } from "./rank_talk.ts";

/** Milliseconds after which it is looked whether there is something new to tell. */
const TELL = 100;

export interface RankRole {
  /** Does what requests with rooms ask for, and all others as before. */
  readonly engine: GenerationEngine;
  close(): Promise<void>;
}

/** @throws As `openRole`. */
export async function openRankRole(
  engine: Pick<StartedEngine, "pageLayout"> & GenerationEngine,
  options: RoleOptions,
  { report, say }: { readonly report: StartReport; readonly say: (message: FromRank) => void },
): Promise<RankRole> {
  const { openRole } = await import("../disaggregation/open_role.ts");
  const onEvent = (text: string) => say({ type: "event", text });
  const role = (await openRole(engine, { options, env: process.env, onEvent }))!;
  report.sizes(role.lines);
  const { port } = role;
  if (port !== undefined) say({ type: "meets", port, layout: engine.pageLayout! });
  let told: string | undefined;
  const tell = () => {
    const counts = role.counts();
    const text = JSON.stringify(counts);
    if (text !== told) say({ type: "rooms", counts });
    told = text;
  };
  tell();
  const timer = setInterval(tell, TELL);
  const shared = role.over(engine);
  return {
    engine: layerOver(engine, {
      // The server's own requests, such as its first one, have no room.
      generate: (request) => (request.bootstrap === undefined ? engine : shared).generate(request),
      abort: (requestId) => shared.abort(requestId),
    }),
    async close() {
      clearInterval(timer);
      await role.close();
    },
  };
}
