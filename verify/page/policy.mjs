// The page's policy names its one script and its one style by hash. `node policy.mjs` says whether
// it names those that are there; `node policy.mjs --write` puts them in.

import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

export const path = new URL('verify.html', import.meta.url);

export function part(page, name) {
  const found = page.split(`<${name}>`).slice(1);
  if (found.length !== 1) throw new Error(`the page has ${found.length} of <${name}>`);
  return found[0].split(`</${name}>`)[0];
}

export function withPolicy(page) {
  const hash = (name) => createHash('sha256').update(part(page, name)).digest('base64');
  return page
    .replace(/script-src '[^']*'/, () => `script-src 'sha256-${hash('script')}'`)
    .replace(/style-src '[^']*'/, () => `style-src 'sha256-${hash('style')}'`);
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const page = readFileSync(path, 'utf8');
  const right = withPolicy(page);
  if (process.argv[2] === '--write') writeFileSync(path, right);
  else if (page !== right) {
    console.error('the policy of verify.html is not that of its script and style: node verify/page/policy.mjs --write');
    process.exit(1);
  }
}
