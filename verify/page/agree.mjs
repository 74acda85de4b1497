// Checks every NAME.zip of a folder with verify.html, in Node and in a browser that opened the page
// from disk, and compares with NAME.json, what `leasewatch-verify check --json` said of it: the
// exit code, the steps that were reached, the file, line and hour of the first fault, how many
// notes. NAME.servers and NAME.witnesses hold the keys that whoever checks knows.
// LEASEWATCH_SCREENSHOTS names a folder to leave pictures in.
//
// usage: node agree.mjs FOLDER

import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { runInThisContext } from 'node:vm';
import { part, path } from './policy.mjs';

const require = createRequire(new URL('../../scripts/browser/package.json', import.meta.url));
const { chromium } = require('playwright-core');

const [folder] = process.argv.slice(2);
const problems = [];
const file = (name, ending) => join(folder, `${name}.${ending}`);
const names = readdirSync(folder).filter((of) => of.endsWith('.zip')).map((of) => of.slice(0, -4)).sort();
const keysOf = (name) => ['servers', 'witnesses'].map((of) => readFileSync(file(name, of), 'utf8'));

// What both verifiers must say alike. The page holds the archive to the document's whole form; a
// flipped bit of a time or of the directory's length, which changes no file, is refused by it alone.
function compare(where, name, found) {
  const expected = JSON.parse(readFileSync(file(name, 'json'), 'utf8'));
  const isNarrower = name.startsWith('flip-') && expected.exit === 0 && found.exit === 2 && found.bad.step === 'archive';
  if (isNarrower) return;
  const shape = (report) => JSON.stringify({
    exit: report.exit, steps: report.steps.map((step) => [step.name, step.ok]),
    witnesses: report.witnesses, notes: report.notes.length,
  });
  if (shape(expected) !== shape(found)) {
    problems.push(`${where}, ${name}: ${shape(found)} ${found.steps.at(-1)?.said}; expected ${shape(expected)} ${expected.steps.at(-1).said}`);
    return;
  }
  const last = expected.steps.at(-1);
  if (last.ok) return;
  const line = /^(\S+), line (\d+)/.exec(last.said);
  if (line && (found.bad.file !== line[1] || found.bad.line !== Number(line[2]))) {
    problems.push(`${where}, ${name}: names ${JSON.stringify(found.bad)}; expected ${last.said}`);
  }
  const hour = /node (\S+) slot (\d+) (\S+Z)/.exec(last.said);
  if (hour && found.bad.hour !== hour.slice(1).join(' ')) {
    problems.push(`${where}, ${name}: names ${JSON.stringify(found.bad)}; expected ${last.said}`);
  }
}

async function inNode() {
  runInThisContext(part(readFileSync(path, 'utf8'), 'script'));
  const { verify, readServers, readWitnesses, asJson, isAble, TEXTS } = globalThis.leasewatchVerify;
  if (!(await isAble())) problems.push('Node lacks Ed25519 or DecompressionStream');
  const [english, chinese] = Object.values(TEXTS).map((texts) => Object.keys(texts).sort().join(' '));
  if (english !== chinese) problems.push('the two languages do not have the same texts');
  for (const name of names) {
    const [servers, witnesses] = keysOf(name);
    const options = { servers: await readServers(servers), witnesses: await readWitnesses(witnesses) };
    compare('Node', name, asJson(await verify(new Uint8Array(readFileSync(file(name, 'zip'))), options)));
  }
}

async function inBrowser(browser) {
  const context = await browser.newContext({ locale: 'en-US' });
  const page = await opened(context);
  for (const name of names) {
    const [servers, witnesses] = keysOf(name);
    await page.evaluate(() => { document.querySelector('details').open = true; });
    await page.locator('#servers').fill(servers);
    await page.locator('#witnesses').fill(witnesses);
    await choose(page, name);
    compare('browser', name, JSON.parse(await page.locator('#json').textContent()));
    if (await page.locator('img').count() > 0) problems.push(`browser, ${name}: text of a bundle became an element`);
  }
  await page.locator('#servers').fill('no key');
  await page.getByRole('button', { name: 'Check again' }).click();
  const refused = await page.locator('#verdict').textContent();
  if (!refused.includes('Line 1 is no key')) problems.push(`browser: a line that is no key: ${refused}`);
  await context.close();
}

// Both languages, by keys alone, wide and narrow, light and dark.
async function looks(browser) {
  for (const [locale, verdict] of [['en-US', 'self-attested'], ['zh-CN', '自证']]) {
    for (const [width, colorScheme] of [[1280, 'light'], [400, 'dark']]) {
      const context = await browser.newContext({ locale, colorScheme, viewport: { width, height: 900 } });
      const page = await opened(context);
      for (const name of ['honest', 'hour-nonsense']) {
        await choose(page, name);
        const said = await page.locator('#verdict').textContent();
        if (name === 'honest' && !said.includes(verdict)) problems.push(`${locale}: ${said}`);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (over > 0) problems.push(`${locale}, ${width}: the page is ${over} wider than the window`);
        if (process.env.LEASEWATCH_SCREENSHOTS) {
          await page.screenshot({ path: join(process.env.LEASEWATCH_SCREENSHOTS, `verify-${locale}-${width}-${name}.png`), fullPage: true });
        }
      }
      await page.reload();
      const dropped = await page.evaluateHandle((text) => {
        const data = new DataTransfer();
        data.items.add(new File([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))], '<b>dropped.zip'));
        return data;
      }, readFileSync(file('honest', 'zip')).toString('base64'));
      await page.locator('#drop').dispatchEvent('drop', { dataTransfer: dropped });
      await answered(page);
      const ofDropped = await page.locator('#verdict').textContent();
      if (!ofDropped.includes(verdict) || !ofDropped.includes('<b>dropped.zip')) problems.push(`${locale}, dropped: ${ofDropped}`);
      await page.reload();
      await page.keyboard.press('Tab');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      const title = await page.locator('h1').textContent();
      if (title !== '核验证据包') problems.push(`${locale}: the second key does not switch to Chinese: ${title}`);
      await page.keyboard.press('Tab');
      const focused = await page.evaluate(() => document.activeElement.id);
      if (focused !== 'file') problems.push(`${locale}: the third key leads to ${focused}`);
      await context.close();
    }
  }
}

async function opened(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  page.on('console', (message) => { if (message.type() === 'error') problems.push(`browser: ${message.text()}`); });
  page.on('pageerror', (error) => problems.push(`browser: ${error.message}`));
  page.on('request', (request) => { if (!request.url().startsWith('file:')) problems.push(`browser: it asks for ${request.url()}`); });
  await page.goto(path.href, { waitUntil: 'load' });
  return page;
}

async function choose(page, name) {
  await page.locator('#file').setInputFiles(file(name, 'zip'));
  await answered(page);
}

const answered = (page) => page.waitForFunction(() =>
  document.getElementById('work').hidden && !document.getElementById('result').hidden);

await inNode();
const browser = await chromium.launch({
  executablePath: process.env.LEASEWATCH_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
await inBrowser(browser);
await looks(browser);
await browser.close();
if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}
console.log(`${names.length} bundles, in Node and in a browser`);
