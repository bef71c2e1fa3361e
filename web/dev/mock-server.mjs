// A stand-in for the server, for work on the panel alone: `npm run build && node dev/mock-server.mjs --port 5399`.
// It keeps everything in memory and knows only what the panel asks for. Answers follow the public contract.
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

const here = fileURLToPath(new URL('.', import.meta.url));
const dist = join(here, '../dist');
const metadata = join(here, '../../metadata');
const argument = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at > 0 ? process.argv[at + 1] : fallback;
};
const port = Number(argument('port', '5399'));
const seeded = process.argv.includes('--seed');

const documents = (folder) =>
  readdirSync(join(metadata, folder)).filter((f) => f.endsWith('.yaml')).map((f) => parse(readFileSync(join(metadata, folder, f), 'utf8')));
const manifest = (d) => ({ ...d.metadata, spec: d.spec });
const adapters = documents('adapters').map(manifest).filter((a) => a.name !== 'websocket');
const requesters = documents('requesters').map(manifest);
const forms = ['trigger', 'safety', 'ai', 'output'].map((n) => parse(readFileSync(join(metadata, `pipeline/${n}.yaml`), 'utf8')));
const template = JSON.parse(readFileSync(join(metadata, 'pipeline/default.json'), 'utf8'));

const now = () => new Date().toISOString().replace('Z', '');
const stamp = () => ({ created_at: now(), updated_at: now() });
const PERMISSIONS = [
  'workspace.view', 'workspace.update', 'workspace.delete', 'member.view', 'member.invite', 'member.update_role', 'member.remove',
  'resource.view', 'resource.manage', 'runtime.operate', 'provider_secret.manage', 'api_key.manage', 'audit.view', 'data.export', 'billing_link.manage',
];
const workspace = { uuid: randomUUID(), instance_uuid: randomUUID(), name: 'Default Workspace', slug: 'default', type: 'team', status: 'active', source: 'local' };
const state = {
  account: null, token: 'mock-token', wizard: 'none', progress: null, bots: [], providers: [], pipelines: [], keys: [], webhooks: [], invitations: [],
  models: { llm: [], embedding: [], rerank: [] }, admins: {}, logs: {}, chats: {}, messages: [], calls: [], errors: [], tools: [], feedback: [], deliveries: {},
};

function addPipeline(fields) {
  const pipeline = { uuid: randomUUID(), workspace_uuid: workspace.uuid, name: 'ChatPipeline', description: '', emoji: '⚙️', is_default: false, config: structuredClone(template), ...stamp(), ...fields };
  state.pipelines.push(pipeline);
  return pipeline;
}
addPipeline({ name: 'ChatPipeline', description: 'Answers with the built-in agent', is_default: true });

const membership = () => ({
  uuid: 'm1', workspace_uuid: workspace.uuid, account_uuid: 'a1', display_name: state.account?.user, email: state.account?.user, role: 'owner', status: 'active', joined_at: now(), created_at: now(),
});
const entry = () => ({ workspace, membership: membership(), permissions: PERMISSIONS, placement_generation: 1, plan_name: null });
const counts = (p) => ({ ...p, ...Object.fromEntries(Object.entries(state.models).map(([k, list]) => [`${k}_count`, list.filter((m) => m.provider_uuid === p.uuid).length])) });
const withRuntime = (bot) => ({
  ...bot,
  adapter_runtime_values: {
    bot_account_id: bot.enable ? 'bot' : null,
    webhook_full_url: bot.adapter === 'http_bot' ? `http://127.0.0.1:${port}/bots/${bot.uuid}` : null,
    extra_webhook_full_url: bot.adapter === 'http_bot' ? '' : null,
  },
});
const log = (bot, level, text, session = '') => {
  const list = (state.logs[bot] ??= []);
  list.push({ seq_id: list.length, timestamp: Date.now() / 1000, level, text, images: [], message_session_id: session });
};

class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}
const missing = () => new Refusal(404, 'resource_not_found', 'Resource not found');
const find = (list, uuid) => list.find((x) => x.uuid === uuid) ?? (() => { throw missing(); })();
const change = (row, body) => Object.assign(row, body, { uuid: row.uuid, updated_at: now() });
const drop = (list, uuid) => {
  find(list, uuid);
  list.splice(list.findIndex((x) => x.uuid === uuid), 1);
  return null;
};

function monitoring(query) {
  const from = new Date(query.get('startTime') ?? 0).getTime();
  const bots = query.getAll('botId');
  const pipelines = query.getAll('pipelineId');
  const session = query.getAll('sessionId');
  const keep = (row) =>
    new Date(`${row.timestamp}Z`).getTime() >= from &&
    (bots.length === 0 || bots.includes(row.bot_id)) &&
    (pipelines.length === 0 || pipelines.includes(row.pipeline_id)) &&
    (session.length === 0 || session.includes(row.session_id));
  const pickRows = (rows) => rows.filter(keep).reverse();
  const messages = pickRows(state.messages);
  const sessions = [...new Map(state.messages.filter(keep).map((m) => [m.session_id, m])).values()].map((m) => ({
    ...m, message_count: state.messages.filter((x) => x.session_id === m.session_id).length, start_time: m.timestamp, last_activity: m.timestamp, is_active: true,
  }));
  return { messages, calls: pickRows(state.calls), errors: pickRows(state.errors), tools: pickRows(state.tools), sessions, feedback: pickRows(state.feedback) };
}
const overview = (m) => {
  const users = m.messages.filter((x) => x.role === 'user');
  const ok = users.filter((x) => x.status === 'success').length;
  return {
    total_messages: m.messages.length, llm_calls: m.calls.length, embedding_calls: 0, model_calls: m.calls.length,
    success_rate: users.length ? Math.round((ok / users.length) * 10000) / 100 : 100, active_sessions: m.sessions.length,
  };
};

const routes = [
  ['GET', '/user/init', () => ({ initialized: state.account !== null })],
  ['POST', '/user/init', ({ body }) => {
    if (state.account) throw new Refusal(200, 1, 'System already initialized');
    state.account = body;
    return null;
  }],
  ['GET', '/user/account-info', () => (state.account ? { initialized: true, password_login_enabled: true, space_login_enabled: false, authenticated_invitation_acceptance_enabled: false } : { initialized: false })],
  ['POST', '/user/auth', ({ body }) => {
    if (body.user !== state.account?.user || body.password !== state.account?.password) throw new Refusal(200, 1, 'Invalid username or password');
    return { token: state.token };
  }],
  ['POST', '/user/reset-password', ({ body }) => {
    if (body.recovery_key !== 'RECOVERY') throw new Refusal(403, -1, 'Invalid recovery key');
    state.account.password = body.new_password;
    return { user: body.user };
  }],
  ['POST', '/invitations/inspect', ({ body }) => {
    const found = state.invitations.find((i) => i.token === body.token);
    if (!found) throw new Refusal(400, 'invitation_invalid', 'Invitation is invalid');
    return { invitation: found, workspace };
  }],
  ['GET', '/system/info', () => ({
    version: 'v0.1.0', debug: false, edition: 'community', enable_marketplace: false, cloud_service_url: '', allow_modify_login_info: true, disable_models_service: true,
    mcp_stdio_enabled: false, limitation: { max_bots: 8, max_pipelines: -1, max_extensions: -1, max_knowledge_bases: -1, force_box_session_id_template: '' },
    outbound_ips: [], invitation_delivery: { enabled: false, provider: null }, wizard_status: state.wizard, wizard_progress: state.progress,
  })],
  // From here on a token is needed.
  ['GET', '/user/check-token', () => ({ token: state.token }), true],
  ['GET', '/user/info', () => ({ account_uuid: 'a1', user: state.account.user, account_type: 'local', has_password: true }), true],
  ['POST', '/user/change-password', ({ body }) => {
    if (body.current_password !== state.account.password) throw new Refusal(400, -1, 'Current password is incorrect');
    state.account.password = body.new_password;
    return { user: state.account.user };
  }, true],
  ['GET', '/workspaces/bootstrap', () => ({ workspaces: [entry()] }), true],
  ['GET', '/workspaces/current', () => entry(), true],
  ['GET', '/workspaces/:w/members', () => ({ members: [membership(), { ...membership(), uuid: 'm2', account_uuid: 'a2', email: 'ada@example.org', display_name: 'Ada', role: 'developer' }] }), true],
  ['PATCH', '/workspaces/:w/members/:a', ({ body }) => ({ member: { ...membership(), role: body.role } }), true],
  ['GET', '/workspaces/:w/invitations', () => ({ invitations: state.invitations }), true],
  ['POST', '/workspaces/:w/invitations', ({ body }) => {
    const token = randomUUID();
    const invitation = { uuid: randomUUID(), token, workspace_uuid: workspace.uuid, normalized_email: body.email.toLowerCase(), role: body.role, status: 'pending', expires_at: new Date(Date.now() + 7 * 86400e3).toISOString().replace('Z', ''), created_at: now() };
    state.invitations.push(invitation);
    return { invitation, token, link: `http://127.0.0.1:${port}/invitations/accept#token=${token}`, delivery: { status: 'link_only', provider: null } };
  }, true],
  ['DELETE', '/workspaces/:w/invitations/:u', ({ params }) => drop(state.invitations, params.u), true],
  ['POST', '/system/wizard/completed', ({ body }) => {
    state.wizard = body.status;
    state.progress = null;
    return {};
  }, true],
  ['PUT', '/system/wizard/progress', ({ body }) => {
    state.progress = body;
    return {};
  }, true],
  ['GET', '/system/storage-analysis', () => ({
    generated_at: now(), cleanup_policy: { uploaded_file_retention_days: 7, log_retention_days: 3 },
    sections: [{ key: 'database', path: 'data/langbot.db', exists: true, size_bytes: 1843200, file_count: 1 }, { key: 'logs', path: 'data/logs', exists: true, size_bytes: 52311, file_count: 2 }, { key: 'storage', path: 'data/storage', exists: true, size_bytes: 0, file_count: 0 }],
    database: { type: 'sqlite', monitoring_counts: { messages: state.messages.length, llm_calls: state.calls.length, tool_calls: 0, embedding_calls: 0, errors: state.errors.length, sessions: 2, feedback: 0 }, binary_storage: { count: 0, size_bytes: 0 } },
    cleanup_candidates: { uploaded_files: [], log_files: [{ name: 'langbot-2026-11-20.log', date: '2026-11-20', size_bytes: 9911 }] }, tasks: { total: 0, running: 0, completed: 0, id_index: 0 },
  }), true],
  ['GET', '/apikeys', () => ({ keys: state.keys }), true],
  ['POST', '/apikeys', ({ body }) => {
    const key = { id: state.keys.length + 1, uuid: randomUUID(), name: body.name, description: body.description, scopes: body.scopes ?? PERMISSIONS, status: 'active', expires_at: null, last_used_at: null, ...stamp() };
    state.keys.push(key);
    return { key: { ...key, key: 'lbk_0000000000000000000000000000000000000000000' }, secret_available: true };
  }, true],
  ['DELETE', '/apikeys/:id', ({ params }) => {
    state.keys.find((k) => k.id === Number(params.id)).status = 'revoked';
    return null;
  }, true],
  ['GET', '/webhooks', () => ({ webhooks: state.webhooks }), true],
  ['POST', '/webhooks', ({ body }) => {
    const webhook = { id: state.webhooks.length + 1, ...body, ...stamp() };
    state.webhooks.push(webhook);
    return { webhook };
  }, true],
  ['PUT', '/webhooks/:id', ({ params, body }) => {
    Object.assign(state.webhooks.find((w) => w.id === Number(params.id)), body);
    return null;
  }, true],
  ['DELETE', '/webhooks/:id', ({ params }) => {
    state.webhooks = state.webhooks.filter((w) => w.id !== Number(params.id));
    return null;
  }, true],
  ['GET', '/platform/adapters', () => ({ adapters }), true],
  ['GET', '/platform/bots', () => ({ bots: state.bots }), true],
  ['POST', '/platform/bots', ({ body }) => {
    const bot = { uuid: randomUUID(), workspace_uuid: workspace.uuid, enable: true, use_pipeline_uuid: state.pipelines.at(-1).uuid, use_pipeline_name: state.pipelines.at(-1).name, pipeline_routing_rules: [], ...stamp(), ...body };
    state.bots.push(bot);
    return { uuid: bot.uuid };
  }, true],
  ['GET', '/platform/bots/:u', ({ params }) => ({ bot: withRuntime(find(state.bots, params.u)) }), true],
  ['PUT', '/platform/bots/:u', ({ params, body }) => {
    const bot = change(find(state.bots, params.u), body);
    if (bot.enable) log(bot.uuid, 'info', 'Adapter started, waiting for messages.');
    return null;
  }, true],
  ['DELETE', '/platform/bots/:u', ({ params }) => drop(state.bots, params.u), true],
  ['POST', '/platform/bots/:u/logs', ({ params, body }) => {
    const list = state.logs[params.u] ?? [];
    const end = body.from_index < 0 ? list.length : body.from_index + 1;
    return { logs: list.slice(Math.max(0, end - body.max_count), end), total_count: list.length };
  }, true],
  ['GET', '/platform/bots/:u/health', ({ params }) => {
    const bot = find(state.bots, params.u);
    const list = state.deliveries[params.u] ?? [];
    const n = (...s) => list.filter((d) => s.includes(d.state)).length;
    return { health: { state: bot.enable ? (bot.name.includes('Broken') ? 'failed' : 'running') : 'disabled', since: bot.updated_at, last_error: bot.name.includes('Broken') ? 'Callback https://example.org/hook: connection refused' : null, last_message_at: list[0]?.received_at ?? null, received: list.length, delivered: n('sent'), failed: n('failed'), pending: n('received', 'running', 'sending') } };
  }, true],
  ['GET', '/platform/bots/:u/deliveries', ({ params, query }) => {
    const list = (state.deliveries[params.u] ?? []).filter((d) => !query.get('state') || d.state === query.get('state'));
    return { deliveries: list.slice(0, Number(query.get('limit') ?? 50)), total: list.length };
  }, true],
  ['GET', '/platform/bots/:u/admins', ({ params }) => ({ admins: state.admins[params.u] ?? [] }), true],
  ['POST', '/platform/bots/:u/admins', ({ params, body }) => {
    (state.admins[params.u] ??= []).push({ id: Math.floor(Math.random() * 1e6), ...body });
    return { id: 1 };
  }, true],
  ['DELETE', '/platform/bots/:u/admins/:id', ({ params }) => {
    state.admins[params.u] = state.admins[params.u].filter((a) => a.id !== Number(params.id));
    return null;
  }, true],
  ['GET', '/pipelines', () => ({ pipelines: state.pipelines }), true],
  ['POST', '/pipelines', ({ body }) => ({ uuid: addPipeline({ name: body.name, description: body.description, emoji: body.emoji ?? '⚙️' }).uuid }), true],
  ['GET', '/pipelines/_/metadata', () => ({ configs: forms }), true],
  ['GET', '/pipelines/:u', ({ params }) => ({ pipeline: find(state.pipelines, params.u) }), true],
  ['PUT', '/pipelines/:u', ({ params, body }) => {
    change(find(state.pipelines, params.u), body);
    return null;
  }, true],
  ['DELETE', '/pipelines/:u', ({ params }) => drop(state.pipelines, params.u), true],
  ['POST', '/pipelines/:u/copy', ({ params }) => {
    const p = find(state.pipelines, params.u);
    return { uuid: addPipeline({ ...structuredClone(p), uuid: randomUUID(), name: `${p.name} (Copy)`, is_default: false }).uuid };
  }, true],
  ['GET', '/pipelines/:u/ws/messages/:t', ({ params }) => ({ messages: state.chats[params.u + params.t] ?? [] }), true],
  ['POST', '/pipelines/:u/ws/reset/:t', ({ params }) => {
    state.chats[params.u + params.t] = [];
    return { message: 'Session reset successfully' };
  }, true],
  ['GET', '/provider/requesters', () => ({ requesters }), true],
  ['GET', '/provider/providers', () => ({ providers: state.providers.map(counts) }), true],
  ['POST', '/provider/providers', ({ body }) => {
    const provider = { uuid: randomUUID(), ...body, ...stamp() };
    state.providers.push(provider);
    return { uuid: provider.uuid };
  }, true],
  ['GET', '/provider/providers/:u', ({ params }) => ({ provider: counts(find(state.providers, params.u)) }), true],
  ['PUT', '/provider/providers/:u', ({ params, body }) => {
    change(find(state.providers, params.u), body);
    return null;
  }, true],
  ['DELETE', '/provider/providers/:u', ({ params }) => {
    for (const k of Object.keys(state.models)) state.models[k] = state.models[k].filter((m) => m.provider_uuid !== params.u);
    return drop(state.providers, params.u);
  }, true],
  ['GET', '/provider/providers/:u/scan-models', () => ({ models: ['walk-model', 'walk-model-large', 'walk-model-vision'].map((id) => ({ id, name: id, type: 'llm', abilities: id.includes('vision') ? ['vision'] : [], context_length: null, already_added: state.models.llm.some((m) => m.name === id) })) }), true],
  ['GET', '/provider/models/:k', ({ params, query }) => ({
    models: state.models[params.k].filter((m) => !query.get('provider_uuid') || m.provider_uuid === query.get('provider_uuid')).map((m) => ({ ...m, provider: state.providers.find((p) => p.uuid === m.provider_uuid) })),
  }), true],
  ['POST', '/provider/models/:k', ({ params, body }) => {
    const model = { uuid: randomUUID(), extra_args: {}, reasoning_config: { level: 'provider_default' }, reasoning_capabilities: { supported: true, levels: ['provider_default', 'low', 'medium', 'high'], source: 'known' }, ...body, ...stamp() };
    state.models[params.k].push(model);
    const standard = state.pipelines.find((p) => p.is_default).config.ai['local-agent'];
    if (params.k === 'llm' && !standard.model?.primary) standard.model = { primary: model.uuid, fallbacks: [], reasoning: {} };
    return { uuid: model.uuid };
  }, true],
  ['PUT', '/provider/models/:k/:u', ({ params, body }) => {
    change(find(state.models[params.k], params.u), body);
    return null;
  }, true],
  ['DELETE', '/provider/models/:k/:u', ({ params }) => drop(state.models[params.k], params.u), true],
  ['POST', '/provider/models/:k/:u/test', () => null, true],
  ['GET', '/monitoring/data', ({ query }) => {
    const m = monitoring(query);
    return {
      overview: overview(m), messages: m.messages.slice(0, 200), llmCalls: m.calls.slice(0, 200), toolCalls: m.tools, embeddingCalls: [], sessions: m.sessions, errors: m.errors,
      totalCount: { messages: m.messages.length, llmCalls: m.calls.length, toolCalls: m.tools.length, embeddingCalls: 0, sessions: m.sessions.length, errors: m.errors.length },
    };
  }, true],
  ['GET', '/monitoring/sessions', ({ query }) => ({ sessions: monitoring(query).sessions }), true],
  ['GET', '/monitoring/messages', ({ query }) => ({ messages: monitoring(query).messages }), true],
  ['GET', '/monitoring/tool-calls', ({ query }) => ({ tool_calls: monitoring(query).tools }), true],
  ['GET', '/monitoring/feedback', ({ query }) => ({ feedback: monitoring(query).feedback }), true],
  ['GET', '/monitoring/feedback/stats', ({ query }) => {
    const list = monitoring(query).feedback;
    const likes = list.filter((f) => f.feedback_type === 1).length;
    return { total_feedback: list.length, total_likes: likes, total_dislikes: list.length - likes, satisfaction_rate: list.length ? (likes / list.length) * 100 : 0, by_bot: [] };
  }, true],
  ['GET', '/monitoring/token-statistics', ({ query }) => {
    const calls = monitoring(query).calls;
    const sum = (k) => calls.reduce((s, c) => s + c[k], 0);
    const series = new Map();
    for (const c of calls) {
      const bucket = `${c.timestamp.slice(0, 13)}:00:00`;
      const b = series.get(bucket) ?? { bucket, input_tokens: 0, output_tokens: 0, total_tokens: 0, calls: 0 };
      series.set(bucket, { bucket, input_tokens: b.input_tokens + c.input_tokens, output_tokens: b.output_tokens + c.output_tokens, total_tokens: b.total_tokens + c.total_tokens, calls: b.calls + 1 });
    }
    const total = sum('total_tokens');
    return {
      summary: { total_calls: calls.length, success_calls: calls.filter((c) => c.status === 'success').length, error_calls: calls.filter((c) => c.status === 'error').length, total_input_tokens: sum('input_tokens'), total_output_tokens: sum('output_tokens'), total_tokens: total, total_cost: 0, avg_tokens_per_call: calls.length ? total / calls.length : 0, avg_duration_ms: calls.length ? sum('duration') / calls.length : 0, avg_tokens_per_second: 41.2, zero_token_success_calls: 0 },
      by_model: calls.length ? [{ model_name: 'walk-model', calls: calls.length, error_calls: 1, input_tokens: sum('input_tokens'), output_tokens: sum('output_tokens'), total_tokens: total, cost: 0, avg_tokens_per_call: total / calls.length, avg_duration_ms: sum('duration') / calls.length }] : [],
      timeseries: [...series.values()].sort((a, b) => (a.bucket < b.bucket ? -1 : 1)), bucket: query.get('bucket') ?? 'hour',
    };
  }, true],
];

function match(method, path) {
  for (const [m, pattern, handler, guarded] of routes) {
    if (m !== method) continue;
    const a = pattern.split('/');
    const b = path.split('/');
    if (a.length !== b.length) continue;
    const params = {};
    if (a.every((part, i) => (part.startsWith(':') ? ((params[part.slice(1)] = decodeURIComponent(b[i])), true) : part === b[i]))) return { handler, params, guarded };
  }
  return null;
}

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.json': 'application/json' };
function sendFile(response, file) {
  response.writeHead(200, { 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream', 'Cache-Control': 'no-cache' });
  response.end(readFileSync(file));
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://mock');
  const json = (status, value) => {
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(value));
  };
  if (!url.pathname.startsWith('/api/')) {
    const file = join(dist, normalize(url.pathname));
    return sendFile(response, file.startsWith(dist) && extname(file) && existsSync(file) ? file : join(dist, 'index.html'));
  }
  const path = url.pathname.replace('/api/v1', '');
  const icon = /^\/(?:platform\/adapters|provider\/requesters)\/([^/]+)\/icon$/.exec(path);
  if (icon) {
    const file = join(metadata, path.includes('adapters') ? 'adapters/icons' : 'requesters/icons', `${icon[1]}.svg`);
    return existsSync(file) ? sendFile(response, file) : json(404, { code: -1, msg: 'no icon' });
  }
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  if (path.startsWith('/files/') && request.method === 'POST') return json(200, { code: 0, msg: 'ok', data: { file_key: 'v1/dot.png', file_id: 'v1/file' } });
  if (path.startsWith('/files/image/')) {
    response.writeHead(200, { 'Content-Type': 'image/png' });
    return response.end(Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==', 'base64'));
  }
  if (path === '/monitoring/export') {
    response.writeHead(200, { 'Content-Type': 'text/csv', 'Content-Disposition': `attachment; filename="monitoring-${url.searchParams.get('type')}-1.csv"` });
    return response.end('id\n');
  }
  const found = match(request.method, path);
  if (!found) return json(404, { code: 404, msg: 'Not found' });
  if (found.guarded && request.headers.authorization !== `Bearer ${state.token}`) return json(401, { code: 'invalid_authentication', msg: 'Invalid authentication credentials' });
  try {
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : {};
    json(200, { code: 0, msg: 'ok', data: found.handler({ body, params: found.params, query: url.searchParams }) ?? null });
  } catch (error) {
    json(error.status ?? 500, { code: error.code ?? 'internal_error', msg: error.message });
  }
});

function recordVisit(uuid, text) {
  const bot = state.bots.find((b) => b.uuid === uuid);
  const base = { bot_id: uuid, bot_name: bot?.name, pipeline_id: bot?.use_pipeline_uuid, pipeline_name: bot?.use_pipeline_name, session_id: 'person_visitor', platform: 'person', user_id: 'visitor', user_name: 'Visitor', level: 'info' };
  const id = randomUUID();
  state.messages.push({ ...base, id, timestamp: now(), message_content: JSON.stringify([{ type: 'Plain', text }]), status: 'success', role: 'user' });
  (state.deliveries[uuid] ??= []).unshift({ id, session_id: base.session_id, message_id: id, state: 'sent', attempts: 1, last_error: null, received_at: now(), updated_at: now(), preview: text });
}

// WebSocket by hand: text frames of a debug chat are all that is needed.
server.on('upgrade', (request, socket) => {
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  const send = (frame) => {
    const data = Buffer.from(JSON.stringify(frame));
    const head = data.length < 126 ? Buffer.from([0x81, data.length]) : Buffer.from([0x81, 126, data.length >> 8, data.length & 255]);
    if (!socket.destroyed) socket.write(Buffer.concat([head, data]));
  };
  const url = new URL(request.url, 'http://mock');
  const pipeline = url.pathname.split('/')[4];
  const embedded = url.pathname.includes('/embed/');
  const kind = url.searchParams.get('session_type') ?? 'person';
  const history = (state.chats[pipeline + kind] ??= []);
  let pending = Buffer.alloc(0);
  const answer = async (chain, stream) => {
    const text = chain.filter((c) => c.type === 'Plain').map((c) => c.text).join('');
    const user = { id: history.length + 1, role: 'user', content: text, message_chain: chain, timestamp: now(), is_final: true, connection_id: 'c1' };
    history.push(user);
    send({ type: 'user_message', session_type: kind, data: user });
    const reply = `You said: **${text.trim()}**\n\n1. It arrived.\n2. It was answered piece by piece.\n\n\`\`\`js\nconsole.log('streamed');\n\`\`\``;
    const id = history.length + 1;
    const message = (content, final) => ({ id, role: 'assistant', content, message_chain: [{ type: 'Plain', text: content }], timestamp: now(), is_final: final, connection_id: '' });
    for (let n = 6; stream && n < reply.length; n += 6) {
      send({ type: 'response', session_type: kind, data: message(reply.slice(0, n), false) });
      await new Promise((r) => setTimeout(r, 40));
    }
    history.push(message(reply, true));
    if (embedded) recordVisit(pipeline, text);
    send({ type: 'response', session_type: kind, data: message(reply, true) });
  };
  socket.on('error', () => socket.destroy());
  socket.on('data', (data) => {
    pending = Buffer.concat([pending, data]);
    while (pending.length >= 6) {
      let length = pending[1] & 127;
      let at = 2;
      if (length === 126) {
        length = pending.readUInt16BE(2);
        at = 4;
      }
      if (pending.length < at + 4 + length) return;
      const mask = pending.subarray(at, at + 4);
      const body = Buffer.from(pending.subarray(at + 4, at + 4 + length)).map((b, i) => b ^ mask[i % 4]);
      const opcode = pending[0] & 15;
      pending = pending.subarray(at + 4 + length);
      if (opcode === 8) return socket.end();
      if (opcode !== 1) continue;
      const frame = JSON.parse(body.toString());
      if (frame.type === 'authenticate') send({ type: 'connected', connection_id: 'c1', pipeline_uuid: pipeline, session_type: kind, timestamp: now() });
      else if (frame.type === 'ping') send({ type: 'pong', timestamp: now() });
      else if (frame.type === 'disconnect') return socket.end();
      else void answer(frame.message, frame.stream !== false);
    }
  });
});

/** Traffic of a day, so that the dashboard has something to show. */
function seed(bot, pipeline) {
  const people = ['Ada', 'Grace', 'Linus', '小林'];
  const deliveries = (state.deliveries[bot.uuid] = []);
  for (let i = 0; i < 60; i++) {
    const at = (minutes) => new Date(Date.now() - (60 - i) * 23 * 60e3 + minutes * 60e3).toISOString().replace('Z', '');
    const who = people[i % people.length];
    const failed = i % 17 === 5;
    const base = { bot_id: bot.uuid, bot_name: bot.name, pipeline_id: pipeline.uuid, pipeline_name: pipeline.name, session_id: `person_${who}`, platform: 'person', user_id: who, user_name: who, level: 'info', runner_name: 'local-agent', variables: null };
    const id = randomUUID();
    const text = `When does the shop open on day ${i}?`;
    state.messages.push({ ...base, id, timestamp: at(0), message_content: JSON.stringify([{ type: 'Source' }, { type: 'Plain', text }]), status: failed ? 'error' : 'success', role: 'user' });
    state.calls.push({ ...base, id: randomUUID(), timestamp: at(0.02), model_name: 'walk-model', input_tokens: 180 + i, output_tokens: 60, total_tokens: 240 + i, duration: 900 + i * 7, cost: null, status: failed ? 'error' : 'success', error_message: failed ? '429 Too Many Requests' : null, message_id: id });
    if (failed) state.errors.push({ ...base, id: randomUUID(), timestamp: at(0.05), error_type: 'RateLimited', error_message: 'The provider answered 429 Too Many Requests.', stack_trace: null, message_id: id });
    else state.messages.push({ ...base, id: randomUUID(), timestamp: at(0.1), message_content: JSON.stringify([{ type: 'Plain', text: 'We open at nine, every day but Sunday.' }]), status: 'success', role: 'assistant' });
    if (i % 9 === 0) state.feedback.push({ ...base, id: randomUUID(), timestamp: at(0.4), feedback_type: i % 2 ? 2 : 1, feedback_content: null });
    deliveries.unshift({ id, session_id: base.session_id, message_id: `in_${id.slice(0, 8)}`, state: failed ? 'failed' : i === 59 ? 'running' : 'sent', attempts: failed ? 3 : 1, last_error: failed ? '429 Too Many Requests' : null, received_at: at(0), updated_at: at(0.1), preview: text });
  }
  for (let i = 0; i < 24; i++) log(bot.uuid, ['info', 'info', 'warning', 'error', 'debug'][i % 5], i % 5 === 3 ? 'Callback failed: connection refused, trying again in 2 s' : `Message ${i} of person_Ada accepted`, 'person_Ada');
}
if (seeded) {
  state.account = { user: 'owner@example.org', password: 'correct horse' };
  state.wizard = 'completed';
  const second = addPipeline({ name: 'Support desk', emoji: '🛎️', description: 'Answers customers, formally' });
  for (const [name, enable] of [['Website helper', true], ['Broken callback', true], ['Night shift', false]]) {
    const bot = { uuid: randomUUID(), name, description: enable ? 'Greets visitors' : '', adapter: name === 'Website helper' ? 'web_page_bot' : 'http_bot', adapter_config: {}, enable, use_pipeline_uuid: second.uuid, use_pipeline_name: second.name, pipeline_routing_rules: [{ type: 'message_content', operator: 'contains', value: 'price', pipeline_uuid: second.uuid }], ...stamp() };
    state.bots.push(bot);
    if (enable) seed(bot, second);
  }
}

server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}`));
