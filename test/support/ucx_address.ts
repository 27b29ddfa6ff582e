/** Prints how UCX of this process is reached, and ends. */
import { UcxLibrary } from "../../src/node/ucx/ucx_library.ts";

const ucx = await UcxLibrary.open("lo");
console.log(`address ${Buffer.from(ucx.address).toString("base64")}`);
ucx.close();
