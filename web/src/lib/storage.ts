// Names of the browser storage keys are a contract: existing sessions survive a change of server.
export const KEYS = {
  token: 'token',
  email: 'userEmail',
  principal: 'authPrincipalType',
  workspace: 'langbot_active_workspace_uuid',
  invitation: 'langbot_pending_invitation_token',
  language: 'langbot_language',
  theme: 'langbot-theme',
  sections: 'sidebar_sections',
  listExpansion: 'sidebar_entity_list_expansion',
  unavailableReturn: 'langbot_backend_unavailable_return_to',
} as const;

// Storage throws in some privacy modes; the panel then works for as long as the page lives.
const memory = new Map<string, string>();

function area(kind: 'local' | 'session'): Storage | null {
  try {
    return kind === 'local' ? window.localStorage : window.sessionStorage;
  } catch {
    return null;
  }
}

function make(kind: 'local' | 'session') {
  return {
    get(key: string): string | null {
      try {
        return area(kind)?.getItem(key) ?? memory.get(kind + key) ?? null;
      } catch {
        return memory.get(kind + key) ?? null;
      }
    },
    set(key: string, value: string) {
      memory.set(kind + key, value);
      try {
        area(kind)?.setItem(key, value);
      } catch {
        /* kept in memory */
      }
    },
    remove(key: string) {
      memory.delete(kind + key);
      try {
        area(kind)?.removeItem(key);
      } catch {
        /* nothing stored */
      }
    },
  };
}

export const local = make('local');
export const session = make('session');

export function readJson<T>(key: string, fallback: T): T {
  try {
    const text = local.get(key);
    return text ? (JSON.parse(text) as T) : fallback;
  } catch {
    return fallback;
  }
}

export function clearSession() {
  for (const key of [KEYS.token, KEYS.email, KEYS.principal, KEYS.workspace]) local.remove(key);
}

export function storeSession(token: string, email?: string) {
  local.set(KEYS.token, token);
  if (email) local.set(KEYS.email, email);
}
