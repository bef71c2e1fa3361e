// Walks the main job in a real browser: first start, login, model, bot, streamed chat.
//   node e2e/walk.mjs --url http://127.0.0.1:5300 --model-url http://127.0.0.1:9000 [--shots DIR]
// The server must be fresh (no account). Exit code 0 means that every assertion held.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { SIZES, argument, launch } from './browser.mjs';

const url = argument('url', 'http://127.0.0.1:5300');
const modelUrl = argument('model-url', 'http://127.0.0.1:9000').replace(/\/+$/, '');
const shots = argument('shots', null);
const EMAIL = 'owner@example.org';
const PASSWORD = 'correct horse battery';
const BASE = modelUrl.endsWith('/v1') ? modelUrl : `${modelUrl}/v1`;
const ACCOUNT_SCOPED = /^\/api\/v1\/(user\/(init|auth|check-token|reset-password|change-password|set-password|info|account-info|bind-space|space\/)|workspaces(\/bootstrap)?$|invitations\/)/;

if (shots) mkdirSync(shots, { recursive: true });
const browser = await launch();
const context = await browser.newContext({ viewport: SIZES.wide, locale: 'en-US' });
const page = await context.newPage();
page.setDefaultTimeout(30_000);
const problems = [];

page.on('pageerror', (error) => problems.push(`page error: ${error.message}`));
page.on('console', (message) => {
  if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) problems.push(`console: ${message.text()}`);
});
page.on('response', (response) => {
  const path = new URL(response.url()).pathname;
  if (response.status() >= 500) problems.push(`${response.status()} ${response.request().method()} ${path}`);
  if (response.status() === 404 && !/\/(health|deliveries|icon)$/.test(path)) problems.push(`404 ${path}`);
});
page.on('request', (request) => {
  const path = new URL(request.url()).pathname;
  if (ACCOUNT_SCOPED.test(path) && request.headers()['x-workspace-id']) problems.push(`workspace header on ${path}`);
});

let step = 'start';
const say = (text) => {
  step = text;
  console.log(`· ${text}`);
};

/** Names that a screen reader would miss, ids used twice, and content wider than the screen. */
async function audit(name) {
  const found = await page.evaluate(() => {
    const out = [];
    const visible = (el) => el.getClientRects().length > 0 && !el.closest('[aria-hidden="true"]');
    for (const el of document.querySelectorAll('button, a[href], [role="button"], [role="radio"], [role="tab"]')) {
      if (!visible(el)) continue;
      const label = el.getAttribute('aria-label') ?? el.textContent?.trim() ?? '';
      const labelled = el.id ? document.querySelector(`label[for="${el.id}"]`) : null;
      if (!label && !labelled && !el.closest('label')) out.push(`no name: ${el.outerHTML.slice(0, 120)}`);
    }
    for (const el of document.querySelectorAll('input:not([type="hidden"]):not([hidden]), textarea, select')) {
      if (!visible(el)) continue;
      const labelled = el.getAttribute('aria-label') || (el.id && document.querySelector(`label[for="${CSS.escape(el.id)}"]`)) || el.closest('label');
      if (!labelled) out.push(`no label: ${el.outerHTML.slice(0, 120)}`);
    }
    const ids = [...document.querySelectorAll('[id]')].map((el) => el.id);
    for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) out.push(`id twice: ${id}`);
    const root = document.scrollingElement;
    if (root && root.scrollWidth > window.innerWidth + 1) out.push(`wider than the screen: ${root.scrollWidth} > ${window.innerWidth}`);
    const raw = /\b(common|shell|login|bots|pipelines|chat|models|form|monitor|delivery|health|wizard|routing)\.[a-z]\w+(\.\w+)?\b/.exec(document.body.innerText);
    if (raw) out.push(`untranslated: ${raw[0]}`);
    return out;
  });
  for (const item of found) problems.push(`${name}: ${item}`);
}

async function shoot(name, { full = false } = {}) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    for (const theme of ['light', 'dark']) {
      await page.evaluate((dark) => {
        document.documentElement.classList.toggle('dark', dark);
        document.documentElement.classList.toggle('light', !dark);
      }, theme === 'dark');
      await page.waitForTimeout(180);
      if (theme === 'light') await audit(`${name} (${size})`);
      if (shots) await page.screenshot({ path: join(shots, `${name}-${size}-${theme}.png`), fullPage: full });
    }
  }
  await page.setViewportSize(SIZES.wide);
  await page.evaluate(() => {
    document.documentElement.classList.remove('dark');
    document.documentElement.classList.add('light');
  });
}

const button = (name) => page.getByRole('button', { name, exact: true });
const settled = () => page.waitForLoadState('networkidle').catch(() => {});

async function walk() {
  say('first start leads to registration');
  await page.goto(`${url}/`);
  await page.waitForURL('**/register');
  await page.getByRole('heading', { name: 'Set up Parley' }).waitFor();
  await shoot('01-register');
  await button('Create account').click();
  await page.getByText('Enter a valid e-mail address.').waitFor();
  await page.getByLabel('E-mail').fill(EMAIL);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await button('Create account').click();

  say('login');
  await page.waitForURL('**/login');
  await page.getByRole('heading', { name: 'Welcome back' }).waitFor();
  await shoot('02-login');
  await page.goto(`${url}/reset-password`);
  await page.getByLabel('Recovery key').waitFor();
  await shoot('03-reset');
  await page.goto(`${url}/login`);
  await page.getByLabel('E-mail').fill(EMAIL);
  await page.getByLabel('Password', { exact: true }).fill('not it');
  await button('Sign in').click();
  await page.getByRole('alert').filter({ hasText: 'not right' }).first().waitFor();
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await button('Sign in').click();

  say('wizard: platform');
  await page.waitForURL('**/wizard');
  await page.getByRole('radio').first().waitFor();
  await shoot('04-wizard-platform');
  await page.locator('[data-adapter="web_page_bot"]').first().click();
  await button('Create bot and go on').click();

  say('wizard: bot');
  await button('Save and enable').waitFor();
  await button('Save and enable').click();
  await page.getByText('The bot is enabled.').waitFor();
  await shoot('05-wizard-bot');
  await button('Next').click();

  say('wizard: provider and model');
  const runner = page.locator('[data-runner="local-agent"]');
  await runner.waitFor({ state: 'attached' });
  if (await runner.isVisible()) await runner.click();
  await shoot('06-wizard-engine');
  await page.getByRole('note').getByRole('button', { name: 'Add provider' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('combobox', { name: /Kind of service/ }).click();
  await page.getByRole('searchbox').fill('openai');
  await page.locator('[role="option"][data-value="openai-chat-completions"]').click();
  await dialog.getByLabel('Base URL').fill(BASE);
  await dialog.getByLabel('API key').fill('sk-walk');
  await shoot('07-provider');
  await dialog.getByRole('button', { name: 'Save', exact: true }).click();
  await dialog.getByLabel('Model name').fill('walk-model');
  await dialog.getByRole('button', { name: 'Test', exact: true }).click();
  await dialog.getByText('The model answered in').waitFor({ timeout: 60_000 });
  await shoot('08-model');
  await dialog.getByRole('button', { name: 'Save', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('combobox').filter({ hasText: 'walk-model' }).waitFor();
  await button('Finish').click();
  await page.getByRole('heading', { name: 'Your bot is ready' }).waitFor();
  await shoot('09-wizard-done');
  await button('Go to the bot').click();

  say('bot page');
  await page.waitForURL('**/home/bots?id=*');
  await page.locator('#bot-enable-switch').waitFor();
  const bot = new URL(page.url()).searchParams.get('id');
  const name = (await page.getByRole('heading', { level: 1 }).innerText()).split('\n')[0].trim();
  assert.ok(name.length > 0, 'the bot has a name');
  const save = button('Save');
  assert.ok(await save.isDisabled(), 'Save is disabled while nothing has changed');
  await page.getByLabel('Name', { exact: false }).first().fill('');
  await save.click();
  await page.getByText('Bot name cannot be empty').waitFor();
  await page.getByLabel('Name', { exact: false }).first().fill('Walk bot');
  await save.click();
  await page.getByRole('heading', { level: 1, name: /Walk bot/ }).waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll('button')].some((b) => b.textContent === 'Save' && b.disabled));
  await page.reload();
  await page.getByRole('heading', { level: 1, name: /Walk bot/ }).waitFor();
  await page.locator('#bot-enable-switch').waitFor();
  assert.equal(await page.locator('#bot-enable-switch').getAttribute('data-state'), 'checked', 'the bot is enabled');
  await shoot('10-bot', { full: false });

  say('streamed chat');
  await page.goto(`${url}/home/pipelines`);
  await page.getByRole('main').getByRole('button', { name: new RegExp(`${name.split(/\s/)[0]}.*Pipeline|Pipeline`) }).last().waitFor();
  const card = page.getByRole('main').getByRole('button').filter({ hasText: `${name} Pipeline` });
  await card.click();
  await page.getByRole('tab', { name: 'Configuration' }).waitFor();
  await page.getByRole('tab', { name: /Debug chat/ }).click();
  await page.getByRole('status').filter({ hasText: 'Connected' }).waitFor();
  await page.evaluate(() => {
    window.seen = [];
    new MutationObserver(() => {
      const el = [...document.querySelectorAll('[data-role="assistant"]')].pop();
      if (el) window.seen.push([el.getAttribute('data-final'), el.innerText.length]);
    }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  });
  await page.getByRole('textbox', { name: 'Message' }).fill('Hello, who are you?');
  await page.keyboard.press('Enter');
  await page.locator('[data-role="user"]').filter({ hasText: 'Hello, who are you?' }).waitFor();
  await page.locator('[data-role="assistant"][data-final="true"]').waitFor({ timeout: 60_000 });
  const seen = await page.evaluate(() => window.seen);
  const lengths = new Set(seen.filter(([final]) => final === 'false').map(([, length]) => length));
  assert.ok(lengths.size >= 3, `the answer grew while it was read (${lengths.size} states)`);
  const answer = await page.locator('[data-role="assistant"]').last().innerText();
  assert.ok(answer.length > 20, 'there is an answer');
  await shoot('11-chat');
  await page.reload();
  await page.locator('[data-role="assistant"]').first().waitFor();
  assert.equal(await page.locator('[data-role="assistant"]').count(), 1, 'history survives a reload, without doubles');

  say('chat: an image, a quote, a group with a mention, a fresh start');
  const user = page.locator('[data-role="user"]');
  const done = page.locator('[data-role="assistant"][data-final="true"]');
  await page.locator('input[type="file"]').setInputFiles({
    name: 'dot.png',
    mimeType: 'image/png',
    buffer: Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==', 'base64'),
  });
  await page.getByRole('button', { name: 'Remove dot.png' }).waitFor();
  await page.getByRole('textbox', { name: 'Message' }).fill('What is this?');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('A second line.');
  await page.keyboard.press('Enter');
  await user.nth(1).getByText('A second line.').waitFor();
  await user.nth(1).locator('img').waitFor();
  await done.nth(1).waitFor({ timeout: 60_000 });
  await done.nth(1).hover();
  await done.nth(1).getByRole('button', { name: 'Quote' }).click();
  await page.getByRole('textbox', { name: 'Message' }).fill('Why?');
  await page.keyboard.press('Enter');
  await user.nth(2).locator('blockquote').waitFor();
  await done.nth(2).waitFor({ timeout: 60_000 });
  await shoot('11-chat-parts');
  await page.getByRole('radio', { name: 'Group' }).click();
  await page.getByRole('status').filter({ hasText: 'Connected' }).waitFor();
  await page.getByRole('textbox', { name: 'Message' }).pressSequentially('@');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Remove mention' }).waitFor();
  await page.keyboard.type('are you in this group?');
  await page.keyboard.press('Enter');
  await done.first().waitFor({ timeout: 60_000 });
  await shoot('11-chat-group');
  await page.getByRole('button', { name: 'Start over' }).click();
  await page.getByRole('alertdialog').getByRole('button', { name: 'Start over' }).click();
  await page.getByText('Try the pipeline').waitFor();

  say('pipeline: an edit survives a change of tab');
  await page.getByRole('tab', { name: 'Configuration' }).click();
  await page.getByRole('navigation', { name: 'Sections' }).getByRole('button', { name: 'Trigger' }).click();
  await page.getByRole('button', { name: 'Add entry' }).first().click();
  await page.keyboard.type('walk');
  await page.getByText('Unsaved changes').waitFor();
  await page.getByRole('tab', { name: 'Dashboard' }).click();
  await page.getByRole('tab', { name: 'Configuration' }).click();
  await page.getByText('Unsaved changes').waitFor();
  await save.click();
  await page.getByText('Unsaved changes').waitFor({ state: 'detached' });
  for (const section of ['Basics', 'AI', 'Trigger', 'Safety', 'Output']) {
    await page.getByRole('navigation', { name: 'Sections' }).getByRole('button', { name: section }).click();
    await shoot(`12-pipeline-${section.toLowerCase()}`);
  }
  await page.getByRole('tab', { name: 'Dashboard' }).click();
  await page.getByText('Total Messages').waitFor();
  await shoot('13-pipeline-dashboard');

  say('a visitor chats through the widget\'s socket');
  const visitor = await page.evaluate(
    (bot) =>
      new Promise((resolve, reject) => {
        const socket = new WebSocket(`${location.origin.replace('http', 'ws')}/api/v1/embed/${bot}/ws/connect?session_type=person&session_id=${crypto.randomUUID()}`);
        setTimeout(() => reject(new Error('no answer through the widget')), 30_000);
        socket.onopen = () => socket.send(JSON.stringify({ type: 'authenticate', token: '' }));
        socket.onmessage = (event) => {
          const frame = JSON.parse(event.data);
          if (frame.type === 'connected') socket.send(JSON.stringify({ type: 'message', message: [{ type: 'Plain', text: 'Is anybody there?' }] }));
          if (frame.type === 'error') reject(new Error(frame.message));
          if (frame.type === 'response' && frame.data.is_final) {
            resolve(frame.data.content);
            socket.close();
          }
        };
      }),
    bot,
  );
  assert.ok(visitor.length > 20, 'the visitor is answered');

  say('bot: logs, sessions, delivery');
  await page.goto(`${url}/home/bots`);
  await shoot('14-bots');
  await page.getByRole('main').getByRole('button').filter({ hasText: 'Walk bot' }).click();
  for (const tab of ['Logs', 'Sessions', 'Delivery']) {
    await page.getByRole('tab', { name: tab }).click();
    await settled();
    if (tab === 'Delivery') {
      const row = page.getByRole('row').filter({ hasText: 'Is anybody there?' });
      await row.getByText('Delivered').waitFor();
    }
    if (tab === 'Sessions') {
      await page.getByRole('main').getByRole('listitem').first().getByRole('button').click();
      await page.getByRole('log').getByText('Is anybody there?').waitFor();
    }
    await shoot(`15-bot-${tab.toLowerCase()}`);
  }
  await page.goto(`${url}/home/bots?id=new`);
  await page.getByRole('radio').first().waitFor();
  await button('Create').click();
  await page.getByText('Bot name cannot be empty').waitFor();
  await shoot('16-bot-new');
  await page.goto(`${url}/home/pipelines?id=new`);
  await page.getByRole('heading', { name: 'Create pipeline' }).waitFor();
  await button('Create').click();
  await page.getByText('Pipeline name cannot be empty').waitFor();
  await shoot('17-pipeline-new');

  say('dashboard');
  await page.goto(`${url}/home`);
  await page.waitForURL('**/home/monitoring');
  await page.getByText('Total Messages').waitFor();
  await page.getByRole('heading', { name: 'Dashboard' }).waitFor();
  await page.locator('.recharts-surface').first().waitFor();
  const row = page.getByRole('main').getByRole('link').filter({ hasText: 'Walk bot' });
  await row.getByText('Running').waitFor();
  await row.getByText('1 received').waitFor();
  await row.getByText('1 delivered').waitFor();
  await shoot('18-dashboard', { full: false });
  for (const tab of ['Model calls', 'Tokens', 'Feedback', 'Errors']) {
    await page.getByRole('tab', { name: new RegExp(`^${tab}`) }).click();
    await settled();
    await shoot(`19-dashboard-${tab.toLowerCase().replace(' ', '-')}`);
  }

  const downloaded = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByRole('menuitem', { name: 'Messages (CSV)' }).click();
  assert.match((await downloaded).suggestedFilename(), /^monitoring-messages.*\.csv$/);

  say('settings');
  for (const [action, heading] of [
    ['showWorkspaceSettings', 'Members'], ['showAccountSettings', 'Change password'], ['showModelSettings', 'Models'],
    ['showApiIntegrationSettings', 'API keys'], ['showStorageAnalysis', 'Storage analysis'],
  ]) {
    await page.goto(`${url}/home/monitoring?action=${action}`);
    await page.getByRole('dialog').getByRole('heading', { name: heading }).first().waitFor();
    await settled();
    await shoot(`20-settings-${action.replace('show', '').toLowerCase()}`);
  }
  await page.goto(`${url}/home/monitoring?action=showApiIntegrationSettings`);
  await page.getByRole('button', { name: 'Create API key' }).click();
  await page.getByRole('dialog').last().getByLabel('Name', { exact: false }).fill('walk');
  await page.getByRole('dialog').last().getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByText('Copy the key now.').waitFor();
  assert.match(await page.getByRole('dialog').last().locator('code').innerText(), /^lbk_/, 'the key is shown once');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').getByText('walk', { exact: true }).waitFor();
  assert.equal(await page.getByRole('dialog').count(), 1, 'Escape closes the top layer only');

  await page.getByRole('tab', { name: 'Webhooks' }).click();
  await page.getByRole('button', { name: 'Add webhook' }).click();
  await page.getByRole('dialog').last().getByLabel('Name', { exact: false }).fill('walk hook');
  await page.getByRole('dialog').last().getByLabel('URL').fill(`${modelUrl}/hook`);
  await page.getByRole('dialog').last().getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('switch', { name: 'Enable walk hook' }).waitFor();
  await page.getByRole('switch', { name: 'Enable walk hook' }).click();
  await page.locator('[role="switch"][aria-label="Enable walk hook"][data-state="unchecked"]').waitFor();
  await shoot('20-settings-webhooks');

  say('invitation');
  await page.goto(`${url}/home/monitoring?action=showWorkspaceSettings`);
  await page.getByRole('dialog').getByLabel('E-mail').fill('guest@example.org');
  await page.getByRole('dialog').getByRole('button', { name: 'Invite', exact: true }).click();
  const code = page.getByRole('dialog').locator('code').first();
  await code.waitFor();
  const token = new URL(await code.innerText()).hash;
  assert.match(token, /token=/, 'the link carries its token in the fragment');
  const guest = await browser.newContext({ viewport: SIZES.wide, locale: 'en-US' });
  const guestPage = await guest.newPage();
  await guestPage.goto(`${url}/invitations/accept${token}`);
  await guestPage.getByRole('button', { name: 'Create account and join' }).waitFor();
  assert.equal(new URL(guestPage.url()).hash, '', 'the token has left the address bar');
  if (shots) await guestPage.screenshot({ path: join(shots, '21-invitation-wide-light.png') });
  await guest.close();

  say('password, copy, delete');
  await page.goto(`${url}/home/monitoring?action=showAccountSettings`);
  await page.getByLabel('Current password').fill('wrong');
  await page.getByLabel('New password').fill(`${PASSWORD}!`);
  await page.getByLabel('Repeat password').fill(`${PASSWORD}!`);
  await button('Save').click();
  await page.getByText('The current password is not right.').waitFor();
  await page.getByLabel('Current password').fill(PASSWORD);
  await button('Save').click();
  await page.getByText('Password changed').waitFor();
  await page.goto(`${url}/home/pipelines`);
  await page.getByRole('main').getByRole('button').filter({ hasText: `${name} Pipeline` }).click();
  await page.getByRole('navigation', { name: 'Sections' }).getByRole('button', { name: 'Basics' }).click();
  await button('Copy').click();
  await page.getByRole('alertdialog').getByRole('button', { name: 'Copy' }).click();
  await page.getByRole('heading', { level: 1, name: /\(Copy\)/ }).waitFor();
  await page.getByRole('navigation', { name: 'Sections' }).getByRole('button', { name: 'Basics' }).click();
  await button('Delete pipeline').click();
  await page.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click();
  await page.waitForURL(`${url}/home/pipelines`);
  await page.goto(`${url}/home/bots?id=${bot}`);
  await button('Delete bot').click();
  await page.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click();
  await page.waitForURL(`${url}/home/bots`);
  await page.getByText('No bots yet').waitFor();
  await shoot('21-no-bots');
  await page.goto(`${url}/home/monitoring?action=showModelSettings`);
  await page.getByRole('button', { name: /^Edit provider/ }).click();
  await page.getByRole('dialog').last().getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No providers yet').waitFor();
  await shoot('21-no-providers');

  say('Chinese');
  await page.goto(`${url}/home/monitoring`);
  await page.getByRole('button', { name: 'Language' }).click();
  await page.getByRole('menuitemradio', { name: '简体中文' }).click();
  await page.getByRole('heading', { name: '仪表盘' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-Hans');
  await shoot('22-chinese');
  await page.reload();
  await page.getByRole('heading', { name: '仪表盘' }).waitFor();

  say('keyboard and sign-out');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('href')), '#main', 'the first stop skips to the content');
  await page.getByRole('button', { name: '账户菜单' }).click();
  await page.getByRole('menuitem', { name: '退出登录' }).click();
  await page.waitForURL('**/login');
  assert.equal(await page.evaluate(() => localStorage.getItem('token')), null, 'the token is gone');
}

let code = 0;
try {
  await walk();
  assert.deepEqual(problems, [], 'no errors on any page');
  console.log('walk passed');
} catch (error) {
  code = 1;
  console.error(`FAILED at "${step}": ${error.message}`);
  for (const problem of problems) console.error(`  ${problem}`);
  if (shots) await page.screenshot({ path: join(shots, 'failed.png') }).catch(() => {});
} finally {
  await browser.close();
}
process.exit(code);
