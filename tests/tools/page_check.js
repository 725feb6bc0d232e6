// SPDX-License-Identifier: GPL-3.0-or-later
// Called by page_check.sh: page_check.js PAGE DIRECTORY
const fs = require("fs");
const puppeteer = require("puppeteer-core");

const [page, out] = process.argv.slice(2);
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const name = require("path").basename(page, ".html");
let wrong = 0;

function told(words) {
  wrong += 1;
  console.log(`  ${words}`);
}

async function look(browser, scheme, width, opened) {
  const tab = await browser.newPage();
  await tab.setBypassCSP(true); // for axe-core; that the page needs nothing is seen from its requests
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await tab.setViewport({ width, height: 1200 });
  const asked = [];
  tab.on("request", (request) => asked.push(request.url()));
  await tab.goto(`file://${page}`);
  if (opened) await tab.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
  else await tab.screenshot({ path: `${out}/${name}-${width}-${scheme}.png`, fullPage: true });
  if (!opened && scheme === "light" && width === 1280) await tab.screenshot({ path: `${out}/${name}.png`, clip: { x: 0, y: 0, width, height: 1800 } });
  await tab.evaluate(axe);
  const found = await tab.evaluate(() => axe.run());
  const wide = await tab.evaluate(() => document.documentElement.scrollWidth);
  console.log(`${scheme} ${width} px${opened ? ", unfolded" : ""}: ${found.passes.length} rules passed, ${found.violations.length} violated`);
  for (const one of found.violations) {
    const words = `${one.impact} ${one.id}, ${one.nodes.length} times: ${one.nodes[0].html.slice(0, 200)}`;
    if (["serious", "critical"].includes(one.impact)) told(words);
    else console.log(`  ${words}`);
  }
  if (asked.length !== 1) told(`it asked for ${asked.slice(1).join(", ")}`);
  if (wide > width) told(`it is ${wide} px wide`);
  await tab.close();
}

(async () => {
  const browser = await puppeteer.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  for (const scheme of ["light", "dark"])
    for (const width of [400, 1280, 2560]) for (const opened of [false, true]) await look(browser, scheme, width, opened);
  const tab = await browser.newPage();
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]); // paper is light all the same
  await tab.goto(`file://${page}`);
  await tab.pdf({ path: `${out}/${name}.pdf`, preferCSSPageSize: true, printBackground: true });
  await browser.close();
  process.exit(wrong ? 1 : 0);
})();
