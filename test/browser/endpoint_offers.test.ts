import { expect, test } from "vitest";
import { EndpointOffers, type Offer } from "../../src/browser/endpoint/endpoint_offers.ts";

const offer = (id: string, clientId = `page of ${id}`): Offer => ({
  ...{ id, clientId },
  answer: () => new Response(id),
  isBusy: () => false,
});

/** Offers of pages, of which the closed ones are named. */
function offersOf({ closed = [] as string[], ask = () => {}, patience = 20 } = {}) {
  return new EndpointOffers({ isOpen: async (id) => !closed.includes(id), ask, patience });
}

test("the newest offer answers, and an older one once that is gone", async () => {
  const offers = offersOf();
  const [first, second] = [offer("first"), offer("second")];
  offers.add(first);
  offers.add(second);
  expect(await offers.newest()).toBe(second);
  offers.remove("second");
  expect(await offers.newest()).toBe(first);
});

test("an offer takes the place of the one with its id, and outlives it", async () => {
  const offers = offersOf();
  const [old, renewed] = [offer("one"), offer("one")];
  offers.add(old);
  offers.add(renewed);
  offers.remove(old);
  expect(offers.all).toEqual([renewed]);
});

test("a page that is gone takes its offer along", async () => {
  const offers = offersOf({ closed: ["page of second"] });
  const first = offer("first");
  offers.add(first);
  offers.add(offer("second"));
  expect(await offers.newest()).toBe(first);
  expect(offers.all).toEqual([first]);
});

test("requests that wait together ask once, and each gets the offer that comes", async () => {
  let asked = 0;
  const offers = offersOf({ ask: () => asked++, patience: 10_000 });
  const waiting = [offers.newest(), offers.newest()];
  await new Promise((resolve) => setTimeout(resolve));
  const late = offer("late");
  offers.add(late);
  expect(await Promise.all(waiting)).toEqual([late, late]);
  expect(asked).toBe(1);
  offers.remove(late);
  void offers.newest(1);
  expect(asked).toBe(2);
});

test("gives up after a while", async () => {
  const begin = performance.now();
  expect(await offersOf({ patience: 30 }).newest()).toBe(undefined);
  expect(performance.now() - begin).toBeGreaterThan(25);
});
