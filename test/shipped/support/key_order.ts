/**
 * In which order a model writes two keys, asked for by schemas that name them in either order.
 *
 * @module
 */

const ORDERS = ['{"const":{"left":1,"right":2}}', '{"const":{"right":2,"left":1}}'] as const;

/**
 * The keys of an answer to each of two schemas that the same values fit. Where the order of the
 * schema is kept they differ; where any may come, the model answers both in the same way.
 *
 * @param answer Asks for an answer, without choice by chance.
 */
export async function keyOrders(
  answer: (sampling: { readonly json_schema: string }) => Promise<string>,
): Promise<readonly (readonly string[])[]> {
  const orders: string[][] = [];
  for (const json_schema of ORDERS) {
    orders.push(Object.keys(JSON.parse(await answer({ json_schema })) as object));
  }
  return orders;
}

export const AS_THE_SCHEMAS = [
  ["left", "right"],
  ["right", "left"],
] as const;
