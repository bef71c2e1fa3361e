import { KEYS, clearSession, local } from './storage';

export const API_BASE = (import.meta.env.VITE_API_BASE_URL ?? '').replace(/\/+$/, '');
const PREFIX = '/api/v1';
const TIMEOUT_MS = 30_000;

export const CODE_NETWORK = -1;
export const CODE_ABORTED = -2;

export class ApiError extends Error {
  constructor(
    readonly code: number | string,
    message: string,
    readonly status: number,
    readonly data: unknown = null,
    readonly requestId: string | null = null,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

const ACCOUNT_SCOPED = new Set([
  '/user/init',
  '/user/auth',
  '/user/check-token',
  '/user/reset-password',
  '/user/change-password',
  '/user/set-password',
  '/user/info',
  '/user/account-info',
  '/user/bind-space',
  '/workspaces',
  '/workspaces/bootstrap',
]);

/** Account requests must never carry a workspace selector: the server would read it as a choice. */
export function isAccountScoped(path: string): boolean {
  const bare = (path.split('?')[0] ?? path).replace(/\/+$/, '');
  return ACCOUNT_SCOPED.has(bare) || bare.startsWith('/user/space/') || bare.startsWith('/invitations/');
}

export type Query = Record<string, string | number | boolean | undefined | null | string[]>;

export function withQuery(path: string, query?: Query): string {
  if (!query) return path;
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === '') continue;
    if (Array.isArray(value)) for (const item of value) params.append(key, item);
    else params.append(key, String(value));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

export function apiUrl(path: string): string {
  return `${API_BASE}${PREFIX}${path}`;
}

export function wsUrl(path: string): string {
  const base = new URL(API_BASE || window.location.origin, window.location.origin);
  base.protocol = base.protocol === 'https:' ? 'wss:' : 'ws:';
  return `${base.origin}${base.pathname.replace(/\/+$/, '')}${PREFIX}${path}`;
}

let onSessionLost: () => void = () => {};
export function setSessionLostHandler(handler: () => void) {
  onSessionLost = handler;
}

export function authHeaders(path: string): Record<string, string> {
  const headers: Record<string, string> = {};
  const token = local.get(KEYS.token);
  if (token) headers.Authorization = `Bearer ${token}`;
  const workspace = local.get(KEYS.workspace);
  if (workspace && !isAccountScoped(path)) headers['X-Workspace-Id'] = workspace;
  return headers;
}

export interface RequestOptions {
  query?: Query;
  body?: unknown;
  signal?: AbortSignal;
  timeout?: number;
  /** Send the request as nobody, whatever is stored. */
  anonymous?: boolean;
}

async function send(method: string, path: string, options: RequestOptions): Promise<Response> {
  const abort = new AbortController();
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    abort.abort();
  }, options.timeout ?? TIMEOUT_MS);
  const relay = () => abort.abort();
  options.signal?.addEventListener('abort', relay);
  try {
    const headers = options.anonymous ? {} : authHeaders(path);
    let body: BodyInit | undefined;
    if (options.body instanceof FormData) body = options.body;
    else if (options.body !== undefined) {
      headers['Content-Type'] = 'application/json';
      body = JSON.stringify(options.body);
    }
    return await fetch(apiUrl(withQuery(path, options.query)), { method, headers, body, signal: abort.signal });
  } catch (cause) {
    if (abort.signal.aborted && !timedOut) throw new ApiError(CODE_ABORTED, 'aborted', 0);
    throw new ApiError(CODE_NETWORK, timedOut ? 'timeout' : String((cause as Error).message ?? cause), 0);
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener('abort', relay);
  }
}

function dropSession(path: string) {
  if (path.startsWith('/user/check-token') || path.startsWith('/invitations/')) return;
  const had = local.get(KEYS.token) !== null;
  clearSession();
  if (had) onSessionLost();
}

async function failure(response: Response, path: string): Promise<ApiError> {
  let body: { code?: number | string; msg?: string; data?: unknown; request_id?: string } = {};
  try {
    body = await response.json();
  } catch {
    /* a proxy's page, not our envelope */
  }
  if (response.status === 401) dropSession(path);
  return new ApiError(
    body.code || response.status,
    body.msg || response.statusText || `HTTP ${response.status}`,
    response.status,
    body.data ?? null,
    body.request_id ?? response.headers.get('X-Request-Id'),
  );
}

export async function request<T = unknown>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  if (!response.ok) throw await failure(response, path);
  let body: { code: number | string; msg: string; data: T };
  try {
    body = await response.json();
  } catch {
    throw new ApiError(CODE_NETWORK, 'The answer was not JSON', response.status);
  }
  if (body.code !== 0) throw new ApiError(body.code, body.msg ?? '', response.status, body.data ?? null);
  return body.data;
}

export const api = {
  get: <T>(path: string, query?: Query, signal?: AbortSignal) => request<T>('GET', path, { query, signal }),
  post: <T = null>(path: string, body?: unknown, options?: RequestOptions) =>
    request<T>('POST', path, { ...options, body: body ?? {} }),
  put: <T = null>(path: string, body: unknown) => request<T>('PUT', path, { body }),
  patch: <T = null>(path: string, body: unknown) => request<T>('PATCH', path, { body }),
  del: <T = null>(path: string, query?: Query) => request<T>('DELETE', path, { query }),
};

export async function fetchBlob(path: string, query?: Query, signal?: AbortSignal) {
  const response = await send('GET', path, { query, signal });
  if (!response.ok) throw await failure(response, path);
  return { blob: await response.blob(), name: fileNameOf(response.headers.get('Content-Disposition')) };
}

export function fileNameOf(header: string | null): string | null {
  if (!header) return null;
  const star = /filename\*\s*=\s*UTF-8''([^;]+)/i.exec(header);
  if (star?.[1]) {
    try {
      return decodeURIComponent(star[1].trim());
    } catch {
      /* fall through to the plain form */
    }
  }
  return /filename\s*=\s*"?([^";]+)"?/i.exec(header)?.[1]?.trim() ?? null;
}

export async function download(path: string, query: Query | undefined, fallbackName: string) {
  const { blob, name } = await fetchBlob(path, query);
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name ?? fallbackName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
