// Walks through trouble with a server of its own: a provider that refuses, a server that goes away and comes back, a
// member who may only look.
//   node e2e/trouble.mjs --parley ../build/parley [--port 5377] [--shots DIR]
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SIZES, argument, launch } from './browser.mjs';

const binary = argument('parley', '../build/parley');
const port = Number(argument('port', '5377'));
const shots = argument('shots', null);
const url = `http://127.0.0.1:${port}`;
const data = mkdtempSync(join(tmpdir(), 'parley-trouble-'));
if (shots) mkdirSync(shots, { recursive: true });

let server = null;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function up() {
  server = spawn(binary, ['serve', '--data', data], { env: { ...process.env, API__PORT: String(port) }, stdio: 'ignore' });
  for (let n = 0; n < 100; n++) {
    if ((await fetch(`${url}/healthz`).catch(() => null))?.ok) return;
    await pause(100);
  }
  throw new Error('the server did not start');
}
async function down(signal = 'SIGTERM') {
  const ended = new Promise((resolve) => server.once('exit', resolve));
  server.kill(signal);
  await ended;
}

const model = spawn(process.execPath, [fileURLToPath(new URL('fake-model.mjs', import.meta.url)), '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
const modelUrl = await new Promise((resolve) => model.stdout.once('data', (line) => resolve(String(line).trim())));

async function call(token, method, path, body) {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { 'Content-Type': 'application/json', ...(token ? { Authorization: `Bearer ${token}` } : {}) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const answer = await response.json();
  assert.equal(answer.code, 0, `${method} ${path}: ${answer.msg}`);
  return answer.data;
}

const browser = await launch();
let step = 'start';
const say = (text) => {
  step = text;
  console.log(`· ${text}`);
};
const problems = [];

async function pageOf(token) {
  const context = await browser.newContext({ viewport: SIZES.wide, locale: 'en-US' });
  await context.addInitScript((value) => {
    if (!localStorage.getItem('token')) localStorage.setItem('token', value);
  }, token);
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on('pageerror', (error) => problems.push(error.message));
  return page;
}
const picture = (page, name) => (shots ? page.screenshot({ path: join(shots, `${name}.png`) }) : null);

async function walk() {
  await up();
  await call(null, 'POST', '/user/init', { user: 'owner@example.org', password: 'correct horse' });
  const { token } = await call(null, 'POST', '/user/auth', { user: 'owner@example.org', password: 'correct horse' });
  await call(token, 'POST', '/system/wizard/completed', { status: 'skipped' });
  const provider = (await call(token, 'POST', '/provider/providers', { name: 'Walk', requester: 'openai-chat-completions', base_url: `${modelUrl}/v1`, api_keys: ['sk'] })).uuid;
  const make = async (name) => (await call(token, 'POST', '/provider/models/llm', { name, provider_uuid: provider, abilities: [], extra_args: {} })).uuid;
  const models = { good: await make('walk-model'), broken: await make('broken-model') };
  const pipeline = (await call(token, 'POST', '/pipelines', { name: 'Trouble', description: '' })).uuid;
  const use = async (uuid) => {
    const { config } = (await call(token, 'GET', `/pipelines/${pipeline}`)).pipeline;
    config.ai['local-agent'].model = { primary: uuid, fallbacks: [], reasoning: {} };
    await call(token, 'PUT', `/pipelines/${pipeline}`, { config });
  };
  const page = await pageOf(token);
  const composer = page.getByRole('textbox', { name: 'Message' });
  const answers = page.locator('[data-role="assistant"][data-final="true"]');
  const connected = () => page.getByRole('status').filter({ hasText: /^Connected$/ }).waitFor({ timeout: 40_000 });

  say('a provider that refuses: the chat says so, the dashboard knows why');
  await use(models.broken);
  await page.goto(`${url}/home/pipelines?id=${pipeline}&tab=chat`);
  await connected();
  await composer.fill('Hello?');
  await composer.press('Enter');
  await answers.first().waitFor();
  await picture(page, 'refused');
  await page.getByRole('tab', { name: 'Dashboard' }).click();
  await page.getByRole('tab', { name: 'Errors' }).click();
  await page.getByRole('tabpanel').getByText(/401|API key|auth/i).first().waitFor();
  await picture(page, 'refused-errors');

  say('a test of that model fails with a next step');
  await page.goto(`${url}/home/monitoring?action=showModelSettings`);
  await page.getByRole('listitem').filter({ hasText: 'broken-model' }).last().getByRole('button', { name: 'Test' }).click();
  await page.getByRole('alert').filter({ hasText: 'Check the base URL, the API key and the model name.' }).waitFor();
  await picture(page, 'refused-test');

  say('the session still works once the model does');
  await use(models.good);
  await page.goto(`${url}/home/pipelines?id=${pipeline}&tab=chat`);
  await connected();
  await answers.first().waitFor();
  const before = await answers.count();
  await composer.fill('And now?');
  await composer.press('Enter');
  await answers.nth(before).waitFor({ timeout: 40_000 });
  assert.match(await answers.last().innerText(), /walk model/);

  say('the server is killed: the chat waits, keeps what is typed, and comes back');
  await down('SIGKILL');
  await page.getByText(/Connection lost, attempt/).waitFor();
  await composer.fill('kept while away');
  await composer.press('Enter');
  assert.equal(await composer.inputValue(), 'kept while away', 'nothing typed is lost');
  await picture(page, 'away');
  await up();
  await connected();
  assert.equal(await answers.count(), before + 1, 'the history is what it was');
  await composer.press('Enter');
  await answers.nth(before + 1).waitFor({ timeout: 40_000 });

  say('a panel opened without a server waits and goes where it was going');
  await page.goto(`${url}/home/monitoring`);
  await page.getByText('Total Messages').waitFor();
  const other = await pageOf(token);
  await other.goto(`${url}/login`);
  await other.waitForURL('**/home/**');
  let away = true;
  await other.route('**/api/v1/**', (route) => (away ? route.abort() : route.fallback()));
  await other.goto(`${url}/home/pipelines?id=${pipeline}`);
  await other.waitForURL('**/backend-unavailable');
  await picture(other, 'unavailable');
  away = false;
  await other.waitForURL('**/home/pipelines?id=*');
  await other.getByRole('heading', { level: 1, name: 'Trouble' }).waitFor();

  say('a viewer looks, and is offered nothing else');
  const { workspaces } = await call(token, 'GET', '/workspaces/bootstrap');
  const invitation = await call(token, 'POST', `/workspaces/${workspaces[0].workspace.uuid}/invitations`, { email: 'viewer@example.org', role: 'viewer' });
  await call(null, 'POST', '/invitations/accept', { token: invitation.token, registration: { email: 'viewer@example.org', password: 'only looking' } });
  const guest = await call(null, 'POST', '/user/auth', { user: 'viewer@example.org', password: 'only looking' });
  const viewer = await pageOf(guest.token);
  await viewer.goto(`${url}/home/monitoring`);
  await viewer.getByText('Total Messages').waitFor();
  assert.equal(await viewer.getByRole('button', { name: 'Export' }).count(), 0, 'no export');
  assert.equal(await viewer.getByRole('link', { name: 'Quick start' }).count(), 0, 'no quick start');
  await viewer.goto(`${url}/home/pipelines?id=${pipeline}`);
  await viewer.getByRole('heading', { level: 1, name: 'Trouble' }).waitFor();
  assert.equal(await viewer.getByRole('button', { name: 'Save', exact: true }).count(), 0, 'no save');
  assert.equal(await viewer.getByRole('tab', { name: /Debug chat/ }).count(), 0, 'no debug chat');
  assert.ok(await viewer.getByRole('tab', { name: 'Dashboard' }).isVisible(), 'but the dashboard');
  await picture(viewer, 'viewer-pipeline');
  await viewer.goto(`${url}/home/bots?id=new`);
  await viewer.waitForURL('**/home/bots');
  await viewer.goto(`${url}/home/monitoring?action=showApiIntegrationSettings`);
  await viewer.getByRole('dialog').getByText('Your role').waitFor();
  await picture(viewer, 'viewer-settings');

  say('a session that has ended leads to the login');
  await viewer.evaluate(() => localStorage.setItem('token', 'not.a.token'));
  await viewer.goto(`${url}/home/monitoring`);
  await viewer.waitForURL('**/login').catch(async (error) => {
    await picture(viewer, 'session-ended');
    throw error;
  });
  assert.deepEqual(problems, [], 'no page has failed');
}

let code = 0;
try {
  await walk();
  console.log('trouble passed');
} catch (error) {
  code = 1;
  console.error(`FAILED at "${step}": ${error.message}`);
  const pages = browser.contexts().flatMap((context) => context.pages());
  if (shots && pages.length > 0) await pages[pages.length - 1].screenshot({ path: join(shots, 'failed.png') }).catch(() => {});
} finally {
  await browser.close();
  if (server && server.exitCode === null && server.signalCode === null) await down();
  model.kill();
  rmSync(data, { recursive: true, force: true });
}
process.exit(code);
