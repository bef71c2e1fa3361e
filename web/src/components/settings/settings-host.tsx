import { Suspense, lazy, useEffect } from 'react';
import { useSearchParams } from 'react-router';
import { Spinner } from '@/ui/feedback';
import { SETTINGS_ACTIONS, openSettings } from './actions';

const SettingsDialog = lazy(() => import('./settings-dialog'));

/** Opens the settings that `?action=` names. */
export function SettingsHost() {
  const [params, setParams] = useSearchParams();
  const action = params.get('action');
  const section = action ? SETTINGS_ACTIONS[action] : undefined;
  useEffect(() => {
    const show = () => openSettings(setParams, 'showWorkspaceSettings');
    window.addEventListener('langbot:open-workspace-settings', show);
    return () => window.removeEventListener('langbot:open-workspace-settings', show);
  }, [setParams]);
  if (!section) return null;
  return (
    <Suspense fallback={<Spinner className="fixed inset-0 z-50 bg-black/20" />}>
      <SettingsDialog section={section} />
    </Suspense>
  );
}
