// Opens every page of a running server in a real browser: each language, three widths, with and
// without JavaScript. A page is wrong when it logs an error (a refused inline style is one), asks
// for something that is not there, scrolls sideways, or does not say what it should.
//
// usage: node pages.mjs http://127.0.0.1:7443 [FOLDER for screenshots]

import { mkdir } from 'node:fs/promises';
import { chromium } from 'playwright-core';

const [base, folder] = process.argv.slice(2);
const languages = ['en', 'zh-CN'];
const widths = [360, 1280, 3840];
const nodeCount = 6;
const problems = [];

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// The demo fleet needs some seconds to enrol and to deliver its first segments.
async function fleet() {
  let nodes = [];
  for (let tries = 0; tries < 180; tries++) {
    const overview = await (await fetch(`${base}/overview.json`)).json();
    nodes = overview.tenants.flatMap((t) => t.providers).flatMap((p) => p.nodes);
    if (nodes.length === nodeCount && nodes.every((node) => node.gpus.length > 0)) return nodes;
    await sleep(500);
  }
  throw new Error(`${nodes.length} of ${nodeCount} nodes reported their GPUs within 90 s`);
}

function listen(page, where) {
  page.on('console', (m) => m.type() === 'error' && problems.push(`${where}: ${m.text()}`));
  page.on('pageerror', (e) => problems.push(`${where}: ${e.message}`));
  page.on('response', (r) => r.status() >= 400 && problems.push(`${where}: ${r.status()} ${r.url()}`));
}

async function look(browser, path, language, width, javaScriptEnabled) {
  const where = `${path} ${language} ${width}${javaScriptEnabled ? '' : ' without JavaScript'}`;
  const context = await browser.newContext({
    javaScriptEnabled,
    locale: language,
    viewport: { width, height: 900 },
  });
  const page = await context.newPage();
  listen(page, where);
  await page.goto(base + path, { waitUntil: 'load' });
  const shown = await page.evaluate(() => ({
    language: document.documentElement.lang,
    title: document.querySelector('h1')?.textContent.trim() ?? '',
    text: document.body.innerText,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  }));
  if (shown.language !== language) problems.push(`${where}: the page is in ${shown.language}`);
  if (shown.title === '') problems.push(`${where}: no heading`);
  if (shown.overflow > 0) problems.push(`${where}: scrolls sideways by ${shown.overflow} px`);
  const stray = shown.text.match(/\b(undefined|NaN|null|None|Some\()/);
  if (stray) problems.push(`${where}: says "${stray[0]}"`);
  if (folder && javaScriptEnabled) {
    const name = `${path === '/' ? 'overview' : 'node'}-${language}-${width}.png`;
    await page.screenshot({ path: `${folder}/${name}`, fullPage: true });
  }
  await context.close();
}

const nodes = await fleet();
if (folder) await mkdir(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.LEASEWATCH_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
let views = 0;
for (const path of ['/', `/nodes/${nodes[0].id}`]) {
  for (const language of languages) {
    for (const width of widths) {
      await look(browser, path, language, width, true);
      views += 1;
    }
    await look(browser, path, language, 1280, false);
    views += 1;
  }
}
await browser.close();
problems.forEach((problem) => console.error(problem));
console.log(`pages: ${views} views, ${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
