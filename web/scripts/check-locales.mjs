// Every language file has the same keys and placeholders as English, and every key that the code names exists.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const src = fileURLToPath(new URL('../src', import.meta.url));
const locales = join(src, 'locales');

function flatten(value, prefix = '', out = new Map()) {
  for (const [key, inner] of Object.entries(value)) {
    if (typeof inner === 'string') out.set(prefix + key, inner);
    else flatten(inner, `${prefix}${key}.`, out);
  }
  return out;
}

const placeholders = (text) => (text.match(/\{\{\s*\w+\s*\}\}/g) ?? []).map((x) => x.replace(/\s/g, '')).sort().join();
const problems = [];
const read = (name) => flatten(JSON.parse(readFileSync(join(locales, name), 'utf8')));
const english = read('en-US.json');

for (const name of readdirSync(locales).filter((file) => file.endsWith('.json') && file !== 'en-US.json')) {
  const other = read(name);
  for (const [key, text] of english) {
    if (!other.has(key)) problems.push(`${name}: missing ${key}`);
    else if (other.get(key).trim() === '') problems.push(`${name}: empty ${key}`);
    else if (placeholders(text) !== placeholders(other.get(key))) problems.push(`${name}: other placeholders in ${key}`);
  }
  for (const key of other.keys()) if (!english.has(key)) problems.push(`${name}: extra ${key}`);
}

const sections = new Set([...english.keys()].map((key) => key.split('.')[0]));
const prefixes = new Set();
for (const key of english.keys()) {
  const parts = key.split('.');
  for (let i = 1; i < parts.length; i++) prefixes.add(`${parts.slice(0, i).join('.')}.`);
}
for (const file of readdirSync(src, { recursive: true }).map(String)) {
  if (!/\.tsx?$/.test(file) || file.includes('.test.')) continue;
  const text = readFileSync(join(src, file), 'utf8');
  // The first argument of t(…) may be a choice between two literals.
  for (const [, argument] of text.matchAll(/\bt\(([^()]*(?:\([^()]*\)[^()]*)*)\)/g)) {
    for (const [, key] of (argument ?? '').matchAll(/'([a-z]\w*(?:\.[\w-]+)+)'/gi)) {
      if (sections.has(key.split('.')[0]) && !english.has(key)) problems.push(`${file}: unknown key ${key}`);
    }
    const dynamic = /^`([a-z]\w*\.(?:[\w-]+\.)*)\$\{/i.exec(argument ?? '');
    if (dynamic && !prefixes.has(dynamic[1])) problems.push(`${file}: unknown key group ${dynamic[1]}`);
  }
}

if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}
console.log(`${english.size} keys, ${readdirSync(locales).length} languages`);
