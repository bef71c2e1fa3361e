import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate, useSearchParams } from 'react-router';
import { LoaderCircle } from 'lucide-react';
import { PublicPage } from '@/components/public-page';
import { useTitle } from '@/components/title';
import { activate, listWorkspaces } from '@/lib/session';
import { KEYS, clearSession, local } from '@/lib/storage';
import type { WorkspaceEntry } from '@/lib/types';
import { safeReturnTo } from '@/lib/utils';
import { Button } from '@/ui/button';
import { Badge, ErrorState, Spinner } from '@/ui/feedback';

export function Component() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [params] = useSearchParams();
  const [entries, setEntries] = useState<WorkspaceEntry[] | null>(null);
  const [busy, setBusy] = useState<string | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const [round, setRound] = useState(0);
  useTitle(t('chooser.title'));

  useEffect(() => {
    if (!local.get(KEYS.token)) {
      void navigate('/login', { replace: true });
      return;
    }
    setFailure(null);
    listWorkspaces().then((list) => {
      if (list.length === 0) void navigate('/workspace-unavailable', { replace: true });
      else setEntries(list);
    }, setFailure);
  }, [navigate, round]);

  const choose = async (entry: WorkspaceEntry) => {
    setBusy(entry.workspace.uuid);
    setFailure(null);
    try {
      await activate(entry, entries ?? []);
      void navigate(safeReturnTo(params.get('returnTo')) ?? '/home', { replace: true });
    } catch (error) {
      setFailure(error);
      setBusy(null);
    }
  };

  return (
    <PublicPage
      title={t('chooser.title')}
      subtitle={t('chooser.subtitle')}
      footer={
        <Button
          variant="ghost"
          size="sm"
          onClick={() => {
            clearSession();
            void navigate('/login', { replace: true });
          }}
        >
          {t('shell.logout')}
        </Button>
      }
    >
      {failure !== null && <ErrorState error={failure} onRetry={() => setRound(round + 1)} className="py-3" />}
      {entries === null && failure === null && <Spinner />}
      <ul className="flex flex-col gap-2">
        {entries?.map((entry) => (
          <li key={entry.workspace.uuid}>
            <button
              type="button"
              disabled={busy !== null}
              aria-busy={busy === entry.workspace.uuid || undefined}
              onClick={() => choose(entry)}
              className="flex w-full items-center gap-3 rounded-lg border px-4 py-3 text-left transition-colors hover:bg-sunken disabled:opacity-60"
            >
              <span className="min-w-0 flex-1">
                <span className="block truncate font-medium">{entry.workspace.name}</span>
                <span className="text-[13px] text-muted">{t(entry.workspace.type === 'personal' ? 'chooser.personal' : 'chooser.team')}</span>
              </span>
              <Badge>{t(`role.${entry.membership.role}`)}</Badge>
              {busy === entry.workspace.uuid && <LoaderCircle className="size-4 animate-spin" aria-hidden />}
            </button>
          </li>
        ))}
      </ul>
    </PublicPage>
  );
}
