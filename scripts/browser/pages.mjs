// Opens every page of a running server in a real browser: each language, three widths, with and
// without JavaScript. A page is wrong when it logs an error (a refused inline style is one), asks
// for something that is not there, scrolls sideways, or does not say what it should. The charts of
// a GPU are read and zoomed with the pointer, with keys, and by links alone; a log is uploaded. It
// signs in with a link
// that works once, as `leasewatch-server users sign-in NAME` prints it.
//
// usage: node pages.mjs http://127.0.0.1:7443 LINK [FOLDER for screenshots]

import { mkdir, readFile } from 'node:fs/promises';
import { chromium } from 'playwright-core';

const [base, link, folder] = process.argv.slice(2);
const languages = ['en', 'zh-CN'];
const widths = [360, 1440, 3840];
const nodeCount = 6;
const problems = [];

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// What every context begins with: the cookie of a browser that has signed in.
let storageState;
const ask = (path) => fetch(base + path, {
  headers: { cookie: storageState.cookies.map(({ name, value }) => `${name}=${value}`).join('; ') },
});

// A stranger is led to the sign-in page; the link lets in once. Without JavaScript.
async function enter(browser) {
  const context = await browser.newContext({ javaScriptEnabled: false, locale: 'en' });
  const page = await context.newPage();
  page.setDefaultTimeout(10000);
  await page.goto(`${base}/?tz=Asia/Shanghai`, { waitUntil: 'load' });
  expect('sign-in', new URL(page.url()).pathname === '/sign-in', `a stranger sees ${page.url()}`);
  await page.getByLabel('Name').fill('operator');
  await page.getByLabel('Password').fill('a wrong password');
  await page.getByRole('button', { name: 'Sign in' }).click();
  expect('sign-in', await page.getByRole('alert').count() === 1, 'a wrong password is not told');
  await page.goto(link, { waitUntil: 'load' });
  await page.getByRole('button', { name: 'Sign in' }).click();
  expect('link', new URL(page.url()).pathname === '/', `the link leads to ${page.url()}`);
  storageState = await context.storageState();
  await page.goto(link, { waitUntil: 'load' });
  expect('link', (await page.locator('.status').textContent()) === '404', 'the link works twice');
  await context.close();
}

// The demo fleet needs some seconds to enrol and to deliver its first segments.
async function fleet() {
  let nodes = [];
  for (let tries = 0; tries < 180; tries++) {
    const overview = await (await ask('/overview.json')).json();
    nodes = overview.tenants.flatMap((t) => t.providers).flatMap((p) => p.nodes);
    if (nodes.length === nodeCount && nodes.every((node) => node.gpus.length > 0)) return nodes;
    await sleep(500);
  }
  throw new Error(`${nodes.length} of ${nodeCount} nodes reported their GPUs within 90 s`);
}

// A GPU of which enough was read to zoom into.
async function recorded(nodes) {
  const paths = nodes.flatMap((node) =>
    node.gpus.map((gpu) => `/nodes/${node.id}/gpus/${gpu.number}`));
  for (let tries = 0; tries < 180; tries++) {
    for (const path of paths) {
      const view = await (await ask(`${path}/gpu.json?last=15m`)).json();
      const busy = view.series?.find((series) => series.metric === 'busy_permille');
      if (busy?.points.filter((point) => point.band).length >= 8) return path;
    }
    await sleep(1000);
  }
  throw new Error('no GPU has eight readings in the last 15 minutes');
}

function listen(page, where) {
  page.on('console', (m) => m.type() === 'error' && problems.push(`${where}: ${m.text()}`));
  page.on('pageerror', (e) => problems.push(`${where}: ${e.message}`));
  page.on('response', (r) => r.status() >= 400 && problems.push(`${where}: ${r.status()} ${r.url()}`));
}

async function look(browser, path, language, width, javaScriptEnabled) {
  const where = `${path} ${language} ${width}${javaScriptEnabled ? '' : ' without JavaScript'}`;
  const context = await browser.newContext({
    storageState: path === '/sign-in' ? undefined : storageState,
    javaScriptEnabled,
    locale: language,
    viewport: { width, height: 900 },
  });
  const page = await context.newPage();
  listen(page, where);
  await page.goto(base + path, { waitUntil: 'load' });
  await judge(page, where, language);
  if (folder && javaScriptEnabled) {
    const kind = /gpus/.test(path) ? 'gpu' : /nodes/.test(path) ? 'node' : path.split('/').at(-1) || 'overview';
    const name = `${kind}-${language}-${width}.png`;
    await page.screenshot({ path: `${folder}/${name}`, fullPage: true });
  }
  await context.close();
}

// What is wrong with any page, whatever it shows.
async function judge(page, where, language) {
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
  return shown.text;
}

// What the charts show now: the range, how fine it is, and the texts of the crosshair.
const charts = (page) => page.evaluate(() => {
  const { start, end, bucket } = document.getElementById('charts').dataset;
  const text = (selector) => document.querySelector(selector)?.textContent ?? '';
  return {
    start: Number(start),
    end: Number(end),
    bucket: Number(bucket),
    readout: text('[data-readout]'),
    busy: text('#c-busy [data-value]'),
    lines: document.querySelectorAll('#c-busy .mean').length,
    focused: document.activeElement.closest('.chart')?.id,
    spoken: document.activeElement.getAttribute('aria-valuetext') ?? '',
  };
});

function expect(where, truth, what) {
  if (!truth) problems.push(`${where}: ${what}`);
}

async function zoomed(page, before) {
  await page.waitForFunction(
    (start) => Number(document.getElementById('charts')?.dataset.start) !== start,
    before.start,
  );
  return charts(page);
}

async function useCharts(browser, path, language) {
  const where = `${path} ${language} zoom`;
  const context = await browser.newContext({
    storageState, locale: language, viewport: { width: 1440, height: 900 },
  });
  const page = await context.newPage();
  page.setDefaultTimeout(10000);
  listen(page, where);
  await page.goto(`${base}${path}?last=15m`, { waitUntil: 'load' });
  const whole = await charts(page);
  expect(where, whole.lines > 0, 'utilization has no line');

  // The crosshair reads the same instant in every chart; the last reading is at the right.
  const plot = page.locator('#c-busy [data-plot]');
  await plot.scrollIntoViewIfNeeded();
  const box = await plot.boundingBox();
  const at = (share) => [box.x + box.width * share, box.y + box.height / 2];
  let read = whole;
  for (let share = 0.995; share > 0 && !read.busy.includes('%'); share -= 0.01) {
    await page.mouse.move(...at(share));
    read = await charts(page);
  }
  expect(where, read.busy.includes('%'), `the crosshair reads "${read.busy}"`);
  expect(where, /\d\d:\d\d/.test(read.readout), `the readout is "${read.readout}"`);
  const crosses = await page.evaluate(() =>
    new Set([...document.querySelectorAll('.cross')].map((line) => line.getAttribute('x1'))).size);
  expect(where, crosses === 1, 'the charts do not share the crosshair');

  // Dragging zooms, and back is back.
  await page.mouse.move(...at(0.75));
  await page.mouse.down();
  await page.mouse.move(...at(0.95), { steps: 4 });
  await page.mouse.up();
  const near = await zoomed(page, whole);
  const url = new URL(page.url());
  expect(where, url.searchParams.has('from') && url.searchParams.has('to'), `the URL is ${url.search}`);
  expect(where, near.end - near.start < (whole.end - whole.start) / 3, 'dragging did not zoom in');
  expect(where, near.bucket < whole.bucket, 'the data did not become finer');
  await page.goBack();
  const back = await zoomed(page, near);
  expect(where, back.bucket === whole.bucket, 'going back did not bring the range back');

  // The same with keys.
  await page.locator('#c-busy [data-plot]').focus();
  for (const key of ['End', 'PageUp', 'Shift+PageUp', 'Shift+ArrowLeft']) await page.keyboard.press(key);
  const chosen = await charts(page);
  expect(where, /\d\d:\d\d/.test(chosen.spoken), `a screen reader hears "${chosen.spoken}"`);
  await page.keyboard.press('Enter');
  const keyed = await zoomed(page, back);
  expect(where, keyed.end - keyed.start < back.end - back.start, 'Enter did not zoom in');
  expect(where, keyed.focused === 'c-busy', 'the focus was lost');
  await page.keyboard.press('Escape');
  await zoomed(page, keyed);
  await context.close();
}

// A finger that moves sideways zooms; one that moves up scrolls, which the browser does by itself.
async function useTouch(browser, path) {
  const where = `${path} by touch`;
  const context = await browser.newContext({
    storageState, locale: 'en', hasTouch: true, isMobile: true, viewport: { width: 360, height: 800 },
  });
  const page = await context.newPage();
  page.setDefaultTimeout(10000);
  listen(page, where);
  await page.goto(`${base}${path}?last=15m`, { waitUntil: 'load' });
  const whole = await charts(page);
  const plot = page.locator('#c-busy [data-plot]');
  await plot.scrollIntoViewIfNeeded();
  const box = await plot.boundingBox();
  const session = await context.newCDPSession(page);
  const touch = (type, share) => session.send('Input.dispatchTouchEvent', {
    type,
    touchPoints: share === undefined ? [] : [{ x: box.x + box.width * share, y: box.y + 30 }],
  });
  await touch('touchStart', 0.5);
  for (const share of [0.55, 0.65, 0.8]) await touch('touchMove', share);
  await touch('touchEnd');
  const near = await zoomed(page, whole);
  expect(where, near.end - near.start < (whole.end - whole.start) / 2, 'a finger did not zoom in');
  await context.close();
}

// Without JavaScript: out and in by links, the form, and an error that names its parameter.
async function useLinks(browser, path) {
  const where = `${path} by links`;
  const context = await browser.newContext({ storageState, javaScriptEnabled: false, locale: 'en' });
  const page = await context.newPage();
  page.setDefaultTimeout(10000);
  listen(page, where);
  await page.goto(`${base}${path}?last=15m&tz=Asia/Shanghai`, { waitUntil: 'load' });
  await page.getByRole('link', { name: 'Zoom in' }).click();
  expect(where, /from=.*to=/.test(page.url()), `zooming in leads to ${page.url()}`);
  await page.getByRole('link', { name: 'Zoom out' }).click();
  await page.getByRole('button', { name: 'Apply' }).last().click();
  expect(where, page.url().includes('tz=Asia'), 'the form loses the zone');
  expect(where, (await page.locator('h2').first().textContent()).includes('UTC+08:00'), 'no zone is shown');
  await context.close();
}

// Forty rows of a real log that has no header, and a line that is no row, as a page takes them.
const rows = 40;
const logFile = new URL('../../server/tests/fixtures/smi-trace-idle-rental.csv', import.meta.url);
const log = (await readFile(logFile, 'utf8')).split('\n').slice(0, rows).concat('+------+', '').join('\n');
const columns = 'timestamp,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,power.draw';

// The form as a person fills it in, up to the finished import: the page asks again by itself.
async function upload(browser, language, javaScriptEnabled) {
  const where = `/import ${language} upload${javaScriptEnabled ? '' : ' without JavaScript'}`;
  const context = await browser.newContext({
    storageState, javaScriptEnabled, locale: language, viewport: { width: 1280, height: 900 },
  });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  listen(page, where);
  await page.goto(`${base}/import`, { waitUntil: 'load' });
  const name = `old ${language}${javaScriptEnabled ? '' : ' plain'}`;
  await page.fill('#node', name);
  await page.fill('#timezone', 'Asia/Shanghai');
  await page.click('.upload summary');
  await page.fill('#columns', columns);
  await page.fill('#cadence', '5');
  await page.setInputFiles('#file', { name: 'gpu.csv', mimeType: 'text/csv', buffer: Buffer.from(log) });
  await page.click('.upload button[type=submit]');
  await page.waitForURL(/\/imports\/[0-9a-f]+/);
  const report = page.locator('.facts section').nth(1);
  await report.waitFor();
  const text = await judge(page, where, language);
  expect(where, text.includes(name), `the page does not name ${name}`);
  const facts = await report.locator('dd').allTextContents();
  expect(where, facts[0] === String(rows) && facts[3] === '1', `the report says ${facts}`);
  const line = await page.locator('.imports tbody tr').first().textContent();
  expect(where, line.includes(String(rows + 1)) && line.includes('+------+'), `a bad line says ${line}`);
  expect(where, /[\u4e00-\u9fff]/.test(line) === language.startsWith('zh'), `a bad line of ${language} says ${line}`);
  if (folder) await page.screenshot({ path: `${folder}/import-run-${language}.png`, fullPage: true });
  await page.locator('main a.button').first().click();
  await judge(page, `${where}, its node`, language);
  await context.close();
}

if (folder) await mkdir(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.LEASEWATCH_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
await enter(browser);
const nodes = await fleet();
let views = 0;
const gpu = await recorded(nodes);
for (const path of ['/', '/import', '/account', '/enroll', '/settings/users', '/settings/tenants', '/settings/audit', '/sign-in', `/nodes/${nodes[0].id}`, gpu]) {
  for (const language of languages) {
    for (const width of widths) {
      await look(browser, path, language, width, true);
      views += 1;
    }
    await look(browser, path, language, 1280, false);
    views += 1;
  }
}
const uses = [
  ...languages.map((language) => useCharts(browser, gpu, language)),
  useTouch(browser, gpu),
  useLinks(browser, gpu),
  ...languages.flatMap((language) => [true, false].map((script) => upload(browser, language, script))),
];
for (const use of await Promise.allSettled(uses)) {
  if (use.status === 'rejected') problems.push(use.reason.stack);
}
await browser.close();
problems.forEach((problem) => console.error(problem));
console.log(`pages: ${views} views, ${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
