import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Demo, openDemo, serveDemo } from "../../support/browser/demo.ts";

let demo: Demo | string;

beforeAll(async () => {
  demo = await serveDemo();
}, 120_000);

afterAll(async () => {
  if (typeof demo !== "string") await demo.close();
});

beforeEach((context) => {
  if (typeof demo === "string") context.skip(demo);
});

test("a browser without WebGPU is told which ones have it", async () => {
  const { page } = await openDemo(demo as Demo);
  await page.addInitScript(() => {
    Object.defineProperty(navigator, "gpu", { value: undefined });
    // What pages without https lack, too.
    Object.defineProperty(crypto, "randomUUID", { value: undefined });
    Object.defineProperty(navigator, "storage", { value: undefined });
    Object.defineProperty(navigator, "locks", { value: undefined });
    Object.defineProperty(navigator, "clipboard", { value: undefined });
  });
  await page.goto((demo as Demo).address);
  const banner = page.getByRole("alert");
  await banner.getByText(/this browser has no WebGPU/).waitFor();
  expect(await banner.textContent()).toMatch(/Chrome and Edge .* Safari .* Firefox/);
  await page.close();
});

test("a machine without an adapter is told what may help", async () => {
  const { page } = await openDemo(demo as Demo);
  await page.addInitScript(() => {
    const gpu = { requestAdapter: async () => null };
    Object.defineProperty(navigator, "gpu", { value: gpu });
  });
  await page.goto((demo as Demo).address);
  const banner = page.getByRole("alert");
  await banner.getByText(/offers none on this machine/).waitFor();
  expect(await banner.textContent()).toContain("graphics acceleration");
  await page.close();
});

test("an adapter on the CPU, wrong addresses and cancelling each say so", async () => {
  const { page, problems } = await openDemo(demo as Demo);
  await page.goto((demo as Demo).address);
  const banner = page.getByRole("alert");
  await banner.getByText(/computes on the CPU/).waitFor();
  await banner.getByRole("button", { name: "Dismiss" }).click();
  expect(await banner.textContent()).toBe("");

  const form = page.locator("form", { hasText: "Address of a folder" });
  const load = async (address: string) => {
    await form.getByLabel("Address of a folder").fill(address);
    await form.getByRole("button", { name: "Load" }).click();
  };
  await load("http://[");
  await banner.getByText('"http://[" is no address').waitFor();
  await load("nowhere/");
  await banner.getByText(/nowhere\/ has no such file/).waitFor();
  expect(await banner.textContent()).toContain("config.json, tokenizer.json and .safetensors");
  await load("http://127.0.0.1:1/model/");
  await banner.getByText(/cannot be reached/).waitFor();
  expect(await banner.textContent()).toContain("CORS");

  await page.getByRole("button", { name: "Load tiny-deepseek-v3" }).click();
  await page.getByRole("heading", { name: "Loading tiny-deepseek-v3" }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Load tiny-deepseek-v3" }).waitFor();
  expect(await page.getByText("Loading was cancelled").isVisible()).toBe(true);
  expect(await banner.textContent()).toBe("");
  // The browser itself writes down that no server listens at that port.
  expect(
    problems.filter((problem) => !/ERR_CONNECTION_REFUSED|ERR_UNSAFE_PORT/.test(problem)),
  ).toEqual([]);
  await page.close();
});

test("options change what is said to fit", async () => {
  const { page } = await openDemo(demo as Demo);
  await page.goto((demo as Demo).address);
  await page.getByText("Options", { exact: true }).click();
  const verdict = page.locator(".model", { hasText: "Qwen/Qwen3-1.7B" }).locator(".verdict");
  await page.getByLabel("Memory of the GPU in GB").fill("8");
  expect(await verdict.textContent()).toBe("As published: weights of 4.06 GB fit");
  await page.getByLabel("Memory of the GPU in GB").fill("4");
  expect(await verdict.textContent()).toMatch(/^Quantized to int8 while loading/);
  await page.getByLabel("Memory of the GPU in GB").fill("1");
  expect(await verdict.textContent()).toMatch(/^Too large/);
  await page.getByLabel("Memory of the GPU in GB").fill("4");
  await page.getByLabel("Weights", { exact: true }).selectOption("int4");
  expect(await verdict.textContent()).toBe("in int4: weights of 1.59 GB, as you chose");
  await page.close();
});

test("no view is wider than a phone of 320 pixels, and all is reached in drawers", async () => {
  const { page } = await openDemo(demo as Demo, { viewport: { width: 320, height: 640 } });
  await page.goto((demo as Demo).address);
  await page.getByRole("button", { name: "Dismiss" }).click();
  const overflow = () =>
    page.evaluate(() =>
      [document.documentElement, ...document.querySelectorAll("main, .drawer, header")]
        .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
        .map(({ id, className }) => id || className),
    );
  expect(await overflow()).toEqual([]);
  for (const name of ["Chats", "Settings", "Engine"]) {
    const opener = page.getByRole("button", { name, exact: true });
    await opener.click();
    expect(await opener.getAttribute("aria-expanded")).toBe("true");
    expect(await overflow()).toEqual([]);
    // The focus is in the drawer, and comes back to where it was.
    expect(await page.evaluate(() => document.activeElement?.closest(".drawer") !== null)).toBe(
      true,
    );
    await page.keyboard.press("Escape");
    expect(await opener.getAttribute("aria-expanded")).toBe("false");
    expect(await opener.evaluate((node) => node === document.activeElement)).toBe(true);
  }
  await page.close();
});

test("the theme is the system's until it is switched, and then stays", async () => {
  const { page } = await openDemo(demo as Demo, { colorScheme: "dark" });
  await page.goto((demo as Demo).address);
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  expect(await theme()).toBe("dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.getByRole("button", { name: "Switch to dark colours" }).waitFor();
  expect(await theme()).toBe("light");
  await page.getByRole("button", { name: "Switch to dark colours" }).click();
  expect(await theme()).toBe("dark");
  await page.reload();
  expect(await theme()).toBe("dark");
  await page.close();
});
