// Looks at pages in a browser, each in three widths, by day and by night: that nothing overflows, that charts are drawn and
// their labels apart, that colours differ, and that axe finds nothing serious. Writes a sheet of all pages for each of the
// two. Arguments: the folder of the pages, and the browser. What is wrong is a line of the output.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";

const WIDTHS = [420, 1024, 1600];
const SCHEMES = ["light", "dark"];
const PATIENCE_MS = 60_000;
// What a sheet shows of a page: its beginning.
const SHOWN_PX = 2_400;

const [folder, browser] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core"), "utf8");
const names = readdirSync(folder).filter((file) => file.endsWith(".html")).map((file) => file.slice(0, -5));
let wrong = 0;
const tell = (...words) => {
  wrong += 1;
  console.log(words.join(": "));
};

// What is wrong with the page as it is now. Runs in the page.
function inspect() {
  const found = [];
  const called = (it) => `${it.tagName.toLowerCase()}${it.id ? `#${it.id}` : ""}${it.className && it.className.baseVal === undefined ? `.${String(it.className).replaceAll(" ", ".")}` : ""} "${it.textContent.trim().slice(0, 40)}"`;
  const errors = document.getElementById("errors");
  if (!errors.hidden) found.push(`a script failed: ${errors.textContent}`);
  if (performance.getEntriesByType("resource").length) found.push("something was asked of a network");
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) found.push(`the page is ${wide} px too wide`);
  for (const it of document.querySelectorAll("main *:not(script):not(option)")) {
    if (it.closest("svg") || it.closest(".tip") || it.closest(".marks")) continue;
    const box = it.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const style = getComputedStyle(it);
    if (box.right > innerWidth + 1 && !it.closest(".scroll")) found.push(`out of the window: ${called(it)}`);
    if (style.display !== "inline" && style.overflowX === "visible" && it.scrollWidth > it.clientWidth + 1) found.push(`wider than its place: ${called(it)}`);
  }
  for (const it of document.querySelectorAll("dd, dt, h1, h2, h3, li, option, button, p.note")) {
    if (!it.textContent.trim() && !it.hidden) found.push(`empty: ${called(it)}`);
  }
  for (const it of document.querySelectorAll(".chart")) {
    if (!it.querySelector("canvas, svg")) found.push(`not drawn: ${called(it)}`);
    if (!it.matches("[aria-label]") && !it.querySelector("[aria-label]")) found.push(`without a label: ${called(it)}`);
    const place = it.getBoundingClientRect();
    const texts = [...it.querySelectorAll("svg text")].filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([text, a], at) => {
      if (a.left < place.left - 2 || a.right > place.right + 2 || a.bottom > place.bottom + 2) found.push(`outside of ${it.id}: "${text}"`);
      const over = boxes.slice(at + 1).find(([, b]) => a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 3 && b.top < a.bottom - 3);
      if (over) found.push(`two texts in one place of ${it.id}: "${text}" and "${over[0]}"`);
    });
  }
  for (const it of document.querySelectorAll(".legend")) {
    const signs = [...it.querySelectorAll("i")].map((sign) => sign.style.background).filter((color) => color !== "transparent");
    const twice = signs.find((color, at) => signs.indexOf(color) !== at);
    if (twice) found.push(`two of ${it.id} are ${twice}`);
  }
  const heads = [...document.querySelectorAll("th:not([scope])")];
  if (heads.length) found.push(`without a scope: ${heads.map(called).join(", ")}`);
  return found;
}

// Opens what is folded. Runs in the page.
async function open() {
  const closed = [...document.querySelectorAll(".folds"), ...document.querySelectorAll("#tasks")];
  closed.flatMap((it) => [...it.querySelectorAll("button.fold, .folds > button")].slice(0, 2)).forEach((it) => it.click());
  await new Promise((go) => setTimeout(go, 500));
}

const launch = () => chromium.launch({ executablePath: browser, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
for (const scheme of SCHEMES) {
  const shots = [];
  for (const name of names) {
    // Each page has a browser of its own: one that dies has no part in the next page.
    const browsing = await launch();
    for (const width of WIDTHS) {
      const where = `${name} at ${width}, ${scheme}`;
      const page = await browsing.newPage({ viewport: { width, height: 900 }, colorScheme: scheme, offline: true });
      page.on("pageerror", (error) => tell(where, error.message));
      await page.goto(`file://${resolve(folder, `${name}.html`)}`);
      await page.waitForSelector("body[data-drawn=all]", { timeout: PATIENCE_MS });
      for (const found of new Set(await page.evaluate(inspect))) tell(where, found);
      const shot = join(folder, `${name}-${width}-${scheme}.png`);
      const high = Math.min(SHOWN_PX, await page.evaluate(() => document.documentElement.scrollHeight));
      await page.screenshot({ path: shot, fullPage: true, clip: { x: 0, y: 0, width, height: high } });
      shots.push({ where, shot });
      if (width === WIDTHS[0] || width === WIDTHS[2]) {
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        for (const { id, impact, help, nodes } of violations.filter(({ impact }) => impact === "serious" || impact === "critical")) {
          tell(where, `axe, ${impact}, ${id}`, `${help}, at ${nodes.length} places, first ${nodes[0].target.join(" ")}`);
        }
      }
      if (width === WIDTHS[1]) {
        await page.evaluate(open);
        for (const found of new Set(await page.evaluate(inspect))) tell(`${where}, opened`, found);
      }
      await page.close();
    }
    await browsing.close();
  }
  const figure = ({ where, shot }) => `<figure><figcaption>${where}</figcaption><img src="data:image/png;base64,${readFileSync(shot, "base64")}"></figure>`;
  const browsing = await launch();
  const sheet = await browsing.newPage({ viewport: { width: 2_400, height: 1_000 } });
  await sheet.setContent(`<style>body { display: grid; grid-template-columns: repeat(9, 1fr); gap: 12px; font: 12px sans-serif }
    figure { margin: 0 } img { width: 100%; max-height: 420px; object-fit: contain; object-position: top }</style>${shots.map(figure).join("")}`);
  await sheet.screenshot({ path: join(folder, `all-${scheme}.png`), fullPage: true });
  await browsing.close();
}
console.log(`${names.length} pages, ${WIDTHS.length} widths, ${SCHEMES.length} schemes: ${wrong} findings`);
process.exitCode = wrong ? 1 : 0;
