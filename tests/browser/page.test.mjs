// The live page in a real Chromium. `cargo test --test page` starts it, with:
// OSTARD the program, CHROMIUM the browser, BROWSER_MODULES where npm has installed, SCREENSHOTS a folder or nothing.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { freePort, run, start } from "./daemon.mjs";

const { OSTARD, CHROMIUM, BROWSER_MODULES, SCREENSHOTS } = process.env;
const require = createRequire(`${BROWSER_MODULES}/`);
const { chromium } = require("playwright-core");
const axe = require("axe-core");

const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const DESKTOP = { width: 1280, height: 960 };
const PHONE = { width: 390, height: 844 };
// Longer than any wait in a healthy run under load.
const PATIENCE = { timeout: 300_000 };
// Longer than the tests take, and long enough for all three acts.
const SECONDS = 3600;
const THREE_ACTS = SCREENSHOTS ? 240 : 120;

let browser;
let folder;

before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
  folder = await mkdtemp(path.join(tmpdir(), "ostard-page-"));
});

after(async () => {
  await browser?.close();
  await rm(folder, { recursive: true, force: true });
});

const startDemo = (port, seconds = SECONDS) => start(OSTARD, ["demo", "--seconds", String(seconds), "--seed", "1", "--http", `127.0.0.1:${port}`], /live page +http/);

/** A page, and what it has asked for and complained about. */
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE.timeout);
  const seen = { requests: [], errors: [] };
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  page.on("pageerror", (error) => seen.errors.push(error.stack));
  await page.goto(url);
  return { page, seen, close: () => context.close() };
}

const text = (page, selector) => page.locator(selector).textContent();

/** A number of the list of the stream, by its name. */
async function figure(page, name) {
  const value = await text(page, `#stream dt:text-is("${name}") + dd`);
  return Number(/[\d,]+/.exec(value)[0].replaceAll(",", ""));
}

async function until(what, look) {
  const deadline = Date.now() + PATIENCE.timeout;
  while (Date.now() < deadline) {
    if (await look()) {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`waited in vain: ${what}`);
}

const isLive = (page) => page.locator("#connection:text-is('live')").waitFor(PATIENCE);

/** Shares and accuracy are there: blocks are complete, and labels have come. */
async function isMeasured(page) {
  await isLive(page);
  await page.locator("#answer-right .evidence:has-text('Measured')").waitFor(PATIENCE);
}

const answer = (page, name) => text(page, `#answer-${name} .answer`);

/** The time of the first point that a chart has. */
async function firstTime(page) {
  await page.locator("#shares-chart").focus();
  await page.keyboard.press("Home");
  const [time] = /^\d\d:\d\d:\d\d/.exec(await text(page, "#shares-readout"));
  await page.locator("#shares-chart").blur();
  return time;
}

async function accessible(page, what) {
  // Not as a script of the page, whose policy allows none but its own.
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => window.axe.run());
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
  assert.deepEqual(told, [], what);
  const beyond = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(beyond <= 0, `${what} is ${beyond} pixels too wide`);
}

const screenshot = (page, name) => page.screenshot({ path: path.join(SCREENSHOTS || folder, `${name}.png`) });

test("each act of the demo is told by the page", async (t) => {
  const port = await freePort();
  const demo = await startDemo(port, THREE_ACTS);
  t.after(() => demo.stop());
  const { page, seen, close } = await open(`http://127.0.0.1:${port}/`);
  t.after(close);

  const act = (name) => until(`act ${name}`, async () => (await text(page, "#act")) === `act ${name}`);

  await t.test("nothing moves", async () => {
    await isMeasured(page);
    await act("1: nothing moves");
    await until("shares as in training", async () => (await answer(page, "moved")) === "Shares are as in training");
    assert.equal(await answer(page, "shape"), "Shares explain it");
    await screenshot(page, "page-nothing-moved");
  });

  await t.test("the share of spam trebles and predictions follow", async () => {
    await act("2: the share of spam trebles");
    await until("three times as much spam", async () => /^spam is (5[5-9]|6[0-5])/.test(await answer(page, "moved")));
    assert.equal(await answer(page, "shape"), "Shares explain it");
    assert.match(await answer(page, "served"), /prior|corrected/i);
    // For the README, most of the act.
    const enough = SCREENSHOTS ? 0.55 * THREE_ACTS * 500 : 0;
    await until("a chart to look at", async () => (await figure(page, "Events learned from")) >= enough);
    await screenshot(page, "page");
    await page.emulateMedia({ colorScheme: "dark" });
    await screenshot(page, "page-dark");
    await page.setViewportSize(PHONE);
    await screenshot(page, "page-phone");
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize(DESKTOP);
  });

  await t.test("mails change and the model that was there is served", async () => {
    await act("3: mails change, too");
    await until("classes that changed", async () => (await answer(page, "shape")) === "Classes changed shape, too");
    await until("shares that are not told", async () => (await answer(page, "moved")) === "More than the shares");
    await until("the frozen model", async () => /frozen/i.test(await answer(page, "served")));
    await screenshot(page, "page-classes-changed");
  });

  await t.test("labels open the adapted model", async () => {
    await until("the adapted model", async () => /adapted/i.test(await answer(page, "served")));
    assert.match(await text(page, "#answer-served .evidence"), /labels prefer it/i);
    // Of mails drawn at random: nothing else tells the share by now.
    await until("the share by labels", async () =>
      /^By \d+ labels spam is \d+(\.\d+)? % \[/.test(await text(page, "#answer-moved .evidence")));
    await page.locator("#map-target[aria-label*='by predicted class']").waitFor(PATIENCE);
    const coloured = await page.locator("#map-mapped").evaluate((canvas) =>
      canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0));
    assert.ok(coloured, "the map is empty");
    await accessible(page, "with a map");
    // For the README, most of the act.
    const enough = SCREENSHOTS ? 0.9 * THREE_ACTS * 500 : 0;
    await until("a chart to look at", async () => (await figure(page, "Events learned from")) >= enough);
    await screenshot(page, "page-adapted");
    assert.deepEqual(seen.errors, []);
  });
});

test("the demo's page moves, survives a restart and can be used by everyone", async (t) => {
  const port = await freePort();
  const address = `http://127.0.0.1:${port}/`;
  let demo = await startDemo(port);
  t.after(() => demo.stop());
  const { page, seen, close } = await open(address);
  t.after(close);

  await t.test("it opens with a sentence and addresses", () => {
    const [first] = demo.printed().split("\n");
    assert.match(first, /live page.*share of spam/);
    assert.ok(demo.printed().includes(`live page  ${address}`), demo.printed());
  });

  await t.test("numbers move", async () => {
    await isMeasured(page);
    assert.match(await text(page, "#answer-moved"), /\d %/);
    assert.match(await text(page, "#answer-stream .answer"), /events\/s/);
    assert.match(await text(page, "#rejected"), /malformed/);
    assert.match(await text(page, "#configuration"), /steps_per_block = 5 # default/);
    const before = await figure(page, "Events learned from");
    await until("more events", async () => (await figure(page, "Events learned from")) > before);
    assert.equal(await page.locator(".chart canvas").count(), 4);
  });

  await t.test("no other host is asked and nothing is complained about", () => {
    assert.deepEqual(seen.requests.filter((url) => !url.startsWith(address) && !url.startsWith("data:")), []);
    assert.deepEqual(seen.errors, []);
  });

  await t.test("a reload shows what was before it", async () => {
    const first = await firstTime(page);
    await page.reload();
    await isMeasured(page);
    assert.equal(await firstTime(page), first);
  });

  await t.test("the keyboard reaches everything", async () => {
    const spam = page.locator("#shares-legend button", { hasText: "spam" });
    await spam.focus();
    await page.keyboard.press("Enter");
    assert.equal(await spam.getAttribute("aria-pressed"), "false");
    assert.doesNotMatch(await text(page, "#shares-readout"), /spam/);
    await page.keyboard.press("Space");
    assert.match(await text(page, "#shares-readout"), /spam/);
    await page.locator("#shares-chart").focus();
    const now = await text(page, "#shares-readout");
    await page.keyboard.press("Home");
    assert.notEqual(await text(page, "#shares-readout"), now);
    await page.locator("#shares-chart").blur();
  });

  await t.test("light, dark and small, it passes the checks of axe", async () => {
    await accessible(page, "light");
    await page.emulateMedia({ colorScheme: "dark" });
    await accessible(page, "dark");
    await page.setViewportSize(PHONE);
    await accessible(page, "dark on a phone");
    await page.emulateMedia({ colorScheme: "light" });
    await accessible(page, "light on a phone");
    await page.setViewportSize(DESKTOP);
  });

  await t.test("a restarted daemon is found again, and what was seen before stays", async () => {
    assert.deepEqual(seen.errors, []);
    const first = await firstTime(page);
    await demo.stop();
    await page.locator("#connection:has-text('trying again')").waitFor(PATIENCE);
    demo = await startDemo(port);
    await isMeasured(page);
    const before = await figure(page, "Events learned from");
    await until("more events", async () => (await figure(page, "Events learned from")) > before);
    assert.equal(await firstTime(page), first);
    // That nobody answered is the browser's own complaint; the page has none.
    assert.deepEqual(seen.errors.filter((error) => !error.includes("net::ERR_")), []);
  });
});

test("with a token the page asks for it, and a daemon without a broker says so", async (t) => {
  const port = await freePort();
  const token = path.join(folder, "token");
  await writeFile(token, "open sesame\n");
  await run(OSTARD, ["demo", "--seconds", "1", "--export", path.join(folder, "export")]);
  const settings = [
    "kafka.brokers=127.0.0.1:1", "kafka.topic=mails", "kafka.patience=2s", "grpc.listen=127.0.0.1:0",
    `http.listen=127.0.0.1:${port}`, `auth.token_file=${token}`, "http.orders=true",
    `bundle.path=${path.join(folder, "export", "bundle")}`, `checkpoints.folder=${path.join(folder, "checkpoints")}`,
  ];
  const daemon = await start(OSTARD, ["run", ...settings.flatMap((setting) => ["--set", setting])], /listening/);
  t.after(() => daemon.stop());
  const { page, seen, close } = await open(`http://127.0.0.1:${port}/`);
  t.after(close);
  await page.locator("#login").waitFor(PATIENCE);
  await accessible(page, "the form");
  await page.locator("#token").fill("guess");
  await page.keyboard.press("Enter");
  await page.locator("#refused:has-text('refused')").waitFor(PATIENCE);
  await page.locator("#token").fill("open sesame");
  await page.keyboard.press("Enter");
  await isLive(page);
  assert.equal(await text(page, "#model"), "demo");
  await page.locator("#ready:has-text('ready, but kafka')").waitFor(PATIENCE);
  assert.match(await text(page, "#answer-moved"), /No events yet/);
  assert.match(await text(page, "#answer-stream"), /No broker answers/);
  assert.equal(await page.locator("#order-buttons button").count(), 5);
  await accessible(page, "without a broker");
  await page.reload();
  await isLive(page);
  assert.deepEqual(seen.errors.filter((error) => !error.includes("401")), []);
});
