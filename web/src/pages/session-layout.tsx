import { useCallback, useEffect, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Outlet, useLocation, useNavigate } from 'react-router';
import { ApiError, api } from '@/lib/api';
import { SessionContext, activate, chooseWorkspace, listWorkspaces, type Session } from '@/lib/session';
import { KEYS, local, session as sessionStore } from '@/lib/storage';
import type { SystemInfo, WorkspaceEntry } from '@/lib/types';
import { Spinner } from '@/ui/feedback';

type Loaded = Omit<Session, 'refreshSystem'>;

async function open(): Promise<Loaded | { redirect: string }> {
  let active: { user: Session['user']; entry: WorkspaceEntry; entries: WorkspaceEntry[] };
  if (local.get(KEYS.principal) === 'support_admin') {
    // Bound to one workspace by its token; it has no account whose workspaces could be listed.
    const entry = await api.get<WorkspaceEntry>('/workspaces/current');
    active = { user: null, entry, entries: [entry] };
  } else {
    const entries = await listWorkspaces();
    const choice = chooseWorkspace(entries, null, local.get(KEYS.workspace));
    if (choice.kind === 'unavailable') return { redirect: '/workspace-unavailable' };
    if (choice.kind === 'selection-required') {
      const here = window.location.pathname + window.location.search;
      return { redirect: `/workspaces/select?returnTo=${encodeURIComponent(here)}` };
    }
    active = await activate(choice.entry, entries);
  }
  const system = await api.get<SystemInfo>('/system/info');
  return { ...active, system };
}

/** Opens the session once, then hands it to the pages. */
export function Component() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const location = useLocation();
  const [loaded, setLoaded] = useState<Loaded | null>(null);

  useEffect(() => {
    let alive = true;
    if (!local.get(KEYS.token)) {
      void navigate('/login', { replace: true });
      return;
    }
    open().then(
      (result) => {
        if (!alive) return;
        if ('redirect' in result) void navigate(result.redirect, { replace: true });
        else setLoaded(result);
      },
      (error) => {
        if (!alive) return;
        if (error instanceof ApiError && (error.status === 0 || error.status >= 500)) {
          sessionStore.set(KEYS.unavailableReturn, window.location.pathname + window.location.search);
          void navigate('/backend-unavailable', { replace: true });
        } else {
          local.remove(KEYS.token);
          void navigate('/login', { replace: true });
        }
      },
    );
    return () => {
      alive = false;
    };
  }, [navigate]);

  const refreshSystem = useCallback(async () => {
    const system = await api.get<SystemInfo>('/system/info');
    setLoaded((current) => (current ? { ...current, system } : current));
  }, []);

  const value = useMemo(() => (loaded ? { ...loaded, refreshSystem } : null), [loaded, refreshSystem]);

  const wizardDue =
    value !== null &&
    value.system.wizard_status === 'none' &&
    value.user !== null &&
    value.entry.permissions.includes('resource.manage') &&
    location.pathname !== '/wizard';
  useEffect(() => {
    if (wizardDue) void navigate('/wizard', { replace: true });
  }, [wizardDue, navigate]);

  if (!value || wizardDue) return <Spinner className="h-dvh" label={t('shell.opening')} />;
  return (
    <SessionContext value={value}>
      <Outlet />
    </SessionContext>
  );
}
