import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ApiError, api, fileNameOf, isAccountScoped, setSessionLostHandler, withQuery } from './api';
import { KEYS, local } from './storage';

function answer(status: number, body: unknown, headers: Record<string, string> = {}) {
  return new Response(typeof body === 'string' ? body : JSON.stringify(body), { status, headers });
}

let calls: { url: string; init: RequestInit }[] = [];
let next: () => Promise<Response> | Response = () => answer(200, { code: 0, msg: 'ok', data: 1 });

beforeEach(() => {
  calls = [];
  local.set(KEYS.token, 't');
  local.set(KEYS.workspace, 'w');
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    calls.push({ url, init });
    return Promise.resolve().then(() => next());
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
  next = () => answer(200, { code: 0, msg: 'ok', data: 1 });
  setSessionLostHandler(() => {});
});
const headersOf = (n: number) => calls[n]?.init.headers as Record<string, string>;

describe('requests', () => {
  it('carry the workspace except where an account is meant', async () => {
    await api.get('/platform/bots');
    await api.get('/workspaces/bootstrap');
    await api.get('/user/info');
    await api.get('/user/space-credits');
    expect(headersOf(0)).toMatchObject({ Authorization: 'Bearer t', 'X-Workspace-Id': 'w' });
    expect(headersOf(1)).not.toHaveProperty('X-Workspace-Id');
    expect(headersOf(2)).not.toHaveProperty('X-Workspace-Id');
    expect(headersOf(3)).toHaveProperty('X-Workspace-Id');
  });

  it('know the account paths', () => {
    for (const path of ['/user/init', '/user/space/callback', '/workspaces', '/invitations/inspect', '/user/check-token?x=1']) expect(isAccountScoped(path)).toBe(true);
    for (const path of ['/workspaces/current', '/workspaces/u/members', '/user/space-credits', '/system/info']) expect(isAccountScoped(path)).toBe(false);
  });

  it('repeat list parameters and leave empty ones out', () => {
    expect(withQuery('/x', { a: ['1', '2'], b: undefined, c: '', d: 0 })).toBe('/x?a=1&a=2&d=0');
  });
});

describe('failures', () => {
  it('take code and text from the envelope, soft ones too', async () => {
    next = () => answer(200, { code: 1, msg: 'Invalid username or password' });
    await expect(api.post('/user/auth', {})).rejects.toMatchObject({ code: 1, message: 'Invalid username or password' });
    next = () => answer(409, { code: 'workspace_quota_exceeded', msg: 'Maximum number of bots (3) reached' });
    await expect(api.post('/platform/bots', {})).rejects.toMatchObject({ code: 'workspace_quota_exceeded', status: 409 });
    next = () => answer(502, '<html>');
    await expect(api.get('/platform/bots')).rejects.toMatchObject({ code: 502 });
  });

  it('have codes of their own where nothing answered', async () => {
    next = () => Promise.reject(new TypeError('Failed to fetch'));
    await expect(api.get('/platform/bots')).rejects.toMatchObject({ code: -1 });
  });

  it('end the session on 401, but not for the token check', async () => {
    const lost = vi.fn();
    setSessionLostHandler(lost);
    next = () => answer(401, { code: 'invalid_authentication', msg: 'x' });
    await expect(api.get('/user/check-token')).rejects.toBeInstanceOf(ApiError);
    expect(local.get(KEYS.token)).toBe('t');
    expect(lost).not.toHaveBeenCalled();
    await expect(api.get('/platform/bots')).rejects.toBeInstanceOf(ApiError);
    expect(local.get(KEYS.token)).toBeNull();
    expect(local.get(KEYS.workspace)).toBeNull();
    expect(lost).toHaveBeenCalledOnce();
  });
});

describe('file names', () => {
  it('come from the header in either form', () => {
    expect(fileNameOf('attachment; filename="monitoring-messages-1.csv"')).toBe('monitoring-messages-1.csv');
    expect(fileNameOf("attachment; filename*=UTF-8''%E6%8A%A5.csv")).toBe('报.csv');
    expect(fileNameOf(null)).toBeNull();
  });
});
