import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useSearchParams } from 'react-router';
import { Boxes, CircleUser, HardDrive, KeyRound, Users } from 'lucide-react';
import { useCan, useSession } from '@/lib/session';
import { cn } from '@/lib/utils';
import { Dialog } from '@/ui/overlay';
import { AccountSettings } from './account-settings';
import { SETTINGS_ACTIONS, openSettings, type SettingsSection } from './actions';
import { ApiSettings } from './api-settings';
import { ModelSettings } from './model-settings';
import { StorageSettings } from './storage-settings';
import { WorkspaceSettings } from './workspace-settings';

const ICONS = { workspace: Users, account: CircleUser, models: Boxes, api: KeyRound, storage: HardDrive };

export default function SettingsDialog({ section }: { section: SettingsSection }) {
  const { t } = useTranslation();
  const [, setParams] = useSearchParams();
  const { user, entry } = useSession();
  const mayKeys = useCan('api_key.manage');
  const mayAudit = useCan('audit.view');
  // While a nested form holds unsaved input, the outer dialog stays.
  const [locked, setLocked] = useState(false);

  const sections = (['workspace', 'account', 'models', 'api', 'storage'] as SettingsSection[]).filter((name) => {
    if (name === 'account') return user !== null;
    if (name === 'api') return mayKeys;
    if (name === 'storage') return mayAudit && entry.workspace.source !== 'cloud_projection';
    return true;
  });
  const current = sections.includes(section) ? section : 'workspace';
  const go = (name: SettingsSection) => {
    const action = Object.entries(SETTINGS_ACTIONS).find(([, value]) => value === name)?.[0];
    if (action) openSettings(setParams, action);
  };

  return (
    <Dialog
      open
      onOpenChange={(open) => {
        if (!open && !locked) openSettings(setParams, null);
      }}
      title={t('settings.title')}
      className="h-[min(92dvh,46rem)] w-[min(62rem,calc(100vw-1.5rem))]"
      bodyClassName="flex flex-col p-0 md:flex-row overflow-hidden"
    >
      <nav aria-label={t('settings.title')} className="flex shrink-0 gap-1 overflow-x-auto border-b p-2 md:w-52 md:flex-col md:border-r md:border-b-0 md:p-3">
        {sections.map((name) => {
          const Icon = ICONS[name];
          return (
            <button
              key={name}
              type="button"
              aria-current={name === current ? 'page' : undefined}
              onClick={() => go(name)}
              className={cn(
                'flex items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm whitespace-nowrap',
                name === current ? 'bg-accent-soft font-medium text-accent-text' : 'hover:bg-sunken',
              )}
            >
              <Icon className="size-4" aria-hidden />
              {t(`settings.${name}`)}
            </button>
          );
        })}
      </nav>
      <div className="min-h-0 min-w-0 flex-1 overflow-y-auto p-4 sm:p-6">
        {current === 'workspace' && <WorkspaceSettings />}
        {current === 'account' && <AccountSettings />}
        {current === 'models' && <ModelSettings onLock={setLocked} />}
        {current === 'api' && <ApiSettings />}
        {current === 'storage' && <StorageSettings />}
      </div>
    </Dialog>
  );
}
