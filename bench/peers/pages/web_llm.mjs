// A page that could load a model with web-llm, if it had one.

import { CreateMLCEngine } from "@mlc-ai/web-llm";
import { reporting } from "../../../test/browser/pages/report.ts";

await reporting(async () => typeof CreateMLCEngine);
