import { createContext, useContext } from 'react';
import { ApiError, api } from './api';
import { KEYS, local } from './storage';
import type { SystemInfo, UserInfo, WorkspaceEntry } from './types';

export interface Session {
  entry: WorkspaceEntry;
  entries: WorkspaceEntry[];
  user: UserInfo | null;
  system: SystemInfo;
  refreshSystem: () => Promise<void>;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const value = useContext(SessionContext);
  if (!value) throw new Error('useSession outside the session layout');
  return value;
}

export function useCan(permission: string): boolean {
  return useSession().entry.permissions.includes(permission);
}

export type Selection =
  | { kind: 'selected'; entry: WorkspaceEntry; entries: WorkspaceEntry[] }
  | { kind: 'selection-required'; entries: WorkspaceEntry[] }
  | { kind: 'unavailable' };

export function chooseWorkspace(entries: WorkspaceEntry[], preferred: string | null, stored: string | null, explicit = false): Selection {
  if (entries.length === 0) return { kind: 'unavailable' };
  const find = (uuid: string | null) => entries.find((e) => e.workspace.uuid === uuid);
  if (preferred) {
    const entry = find(preferred);
    return entry ? { kind: 'selected', entry, entries } : { kind: 'selection-required', entries };
  }
  if (entries.length === 1 && entries[0]) return { kind: 'selected', entry: entries[0], entries };
  const kept = explicit ? undefined : find(stored);
  return kept ? { kind: 'selected', entry: kept, entries } : { kind: 'selection-required', entries };
}

export async function listWorkspaces(): Promise<WorkspaceEntry[]> {
  return (await api.get<{ workspaces: WorkspaceEntry[] }>('/workspaces/bootstrap')).workspaces;
}

/** Makes a workspace the active one and reads what every page needs of it. */
export async function activate(entry: WorkspaceEntry, entries: WorkspaceEntry[]) {
  local.set(KEYS.workspace, entry.workspace.uuid);
  try {
    const [user, current] = await Promise.all([
      local.get(KEYS.principal) === 'support_admin' ? Promise.resolve(null) : api.get<UserInfo>('/user/info'),
      api.get<WorkspaceEntry>('/workspaces/current'),
    ]);
    if (user) local.set(KEYS.email, user.user);
    return { user, entry: current, entries };
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 0)) local.remove(KEYS.workspace);
    throw error;
  }
}

/** Where to go after a login: the panel, or the chooser when the account has several workspaces. */
export async function landingAfterLogin(preferred: string | null = null): Promise<string> {
  const entries = await listWorkspaces();
  const choice = chooseWorkspace(entries, preferred, local.get(KEYS.workspace));
  if (choice.kind === 'selected') {
    local.set(KEYS.workspace, choice.entry.workspace.uuid);
    return '/home/monitoring';
  }
  return choice.kind === 'unavailable' ? '/workspace-unavailable' : `/workspaces/select?returnTo=${encodeURIComponent('/home')}`;
}
