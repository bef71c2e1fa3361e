import { useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useLocation, useNavigate, useSearchParams } from 'react-router';
import {
  Bot as BotIcon, Boxes, ChevronDown, ChevronsUpDown, CircleUser, HardDrive, KeyRound, LayoutDashboard, LogOut, Plus, Sparkles,
  Users, Workflow,
} from 'lucide-react';
import { HealthDot } from '@/components/bot/health';
import { openSettings } from '@/components/settings/actions';
import { useBots, usePipelines, queryClient } from '@/lib/queries';
import { useQuotaReason } from '@/lib/quota';
import { useCan, useSession } from '@/lib/session';
import { KEYS, clearSession, local, readJson } from '@/lib/storage';
import { cn } from '@/lib/utils';
import { Badge, Skeleton } from '@/ui/feedback';
import { GatedButton, Menu, MenuItem, MenuLabel, MenuRadioGroup, MenuRadioItem, MenuSeparator } from '@/ui/overlay';
import { AdapterIcon } from './adapter-icon';
import { Wordmark } from './brand';

const VISIBLE = 5;
const ROW = 'flex h-8 items-center gap-2.5 rounded-md px-2.5 text-sm transition-colors';
const ROW_IDLE = 'text-text hover:bg-sunken';
const ROW_ACTIVE = 'bg-accent-soft font-medium text-accent-text';

function usePersisted(key: string, name: string, fallback: boolean) {
  const [value, setValue] = useState(() => readJson<Record<string, boolean>>(key, {})[name] ?? fallback);
  return [
    value,
    (next: boolean) => {
      setValue(next);
      local.set(key, JSON.stringify({ ...readJson<Record<string, boolean>>(key, {}), [name]: next }));
    },
  ] as const;
}

interface EntityItem {
  id: string;
  name: string;
  icon: ReactNode;
  mark?: ReactNode;
}

function EntityGroup({ name, label, path, icon, items, onCreate, reason, mayCreate }: {
  name: string;
  label: string;
  path: string;
  icon: ReactNode;
  items: EntityItem[] | undefined;
  onCreate: () => void;
  reason: string | null;
  mayCreate: boolean;
}) {
  const { t } = useTranslation();
  const { pathname } = useLocation();
  const [params] = useSearchParams();
  const [open, setOpen] = usePersisted(KEYS.sections, name, true);
  const [all, setAll] = usePersisted(KEYS.listExpansion, name, false);
  const here = pathname === path;
  const current = here ? params.get('id') : null;
  const shown = all ? items : items?.slice(0, VISIBLE);
  const more = (items?.length ?? 0) - VISIBLE;
  return (
    <div>
      <div className="group flex items-center gap-0.5">
        <Link to={path} aria-current={here && !current ? 'page' : undefined} className={cn(ROW, 'min-w-0 flex-1', here && !current ? ROW_ACTIVE : ROW_IDLE)}>
          {icon}
          <span className="truncate">{label}</span>
        </Link>
        {mayCreate && (
          <GatedButton reason={reason} label={t('shell.create', { what: label })} variant="ghost" size="iconSm" onClick={onCreate}>
            <Plus className="size-4 text-muted" aria-hidden />
          </GatedButton>
        )}
        <button
          type="button"
          aria-expanded={open}
          aria-label={t(open ? 'shell.collapse' : 'shell.expand', { what: label })}
          className="grid size-7 place-items-center rounded-md text-muted hover:bg-sunken"
          onClick={() => setOpen(!open)}
        >
          <ChevronDown className={cn('size-4 transition-transform', !open && '-rotate-90')} aria-hidden />
        </button>
      </div>
      {open && (
        <ul className="mt-0.5 ml-4 border-l pl-2">
          {items === undefined && <Skeleton className="my-1 h-6" />}
          {shown?.map((item) => (
            <li key={item.id}>
              <Link
                to={`${path}?id=${encodeURIComponent(item.id)}`}
                aria-current={current === item.id ? 'page' : undefined}
                className={cn(ROW, 'h-7.5 px-2 text-[13px]', current === item.id ? ROW_ACTIVE : ROW_IDLE)}
              >
                <span className="grid size-4 shrink-0 place-items-center" aria-hidden>{item.icon}</span>
                <span className="min-w-0 flex-1 truncate">{item.name}</span>
                {item.mark}
              </Link>
            </li>
          ))}
          {more > 0 && (
            <li>
              <button type="button" className="px-2 py-1 text-xs text-muted hover:text-text" aria-expanded={all} onClick={() => setAll(!all)}>
                {all ? t('shell.less') : t('shell.more', { n: more })}
              </button>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

function WorkspaceSwitcher() {
  const { t } = useTranslation();
  const { entry, entries } = useSession();
  if (entries.length < 2 && entry.workspace.source !== 'cloud_projection') return null;
  const change = (uuid: string) => {
    if (uuid === entry.workspace.uuid) return;
    local.set(KEYS.workspace, uuid);
    // Everything on screen belongs to the other workspace: start over rather than sort out what is still true.
    window.location.assign('/home/monitoring');
  };
  return (
    <div className="px-3 pb-2">
      <Menu
        align="start"
        trigger={
          <button type="button" aria-label={t('shell.switchWorkspace')} className="flex w-full items-center gap-2 rounded-md border px-2.5 py-1.5 text-left text-sm hover:bg-sunken">
            <span className="min-w-0 flex-1 truncate">{entry.workspace.name}</span>
            {entry.plan_name && <Badge>{entry.plan_name}</Badge>}
            <ChevronsUpDown className="size-4 text-muted" aria-hidden />
          </button>
        }
      >
        <MenuLabel>{t('shell.workspaces')}</MenuLabel>
        <MenuRadioGroup value={entry.workspace.uuid} onValueChange={change}>
          {entries.map((item) => (
            <MenuRadioItem key={item.workspace.uuid} value={item.workspace.uuid}>
              <span className="truncate">{item.workspace.name}</span>
            </MenuRadioItem>
          ))}
        </MenuRadioGroup>
      </Menu>
    </div>
  );
}

export function Sidebar() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const [, setParams] = useSearchParams();
  const { system, user, entry } = useSession();
  const bots = useBots();
  const pipelines = usePipelines();
  const botReason = useQuotaReason('bots');
  const pipelineReason = useQuotaReason('pipelines');
  const mayManage = useCan('resource.manage');
  const mayKeys = useCan('api_key.manage');
  const mayAudit = useCan('audit.view');
  const show = (action: string) => openSettings(setParams, action);
  const atDashboard = pathname === '/home/monitoring';

  const logout = () => {
    clearSession();
    queryClient.clear();
    void navigate('/login', { replace: true });
  };

  return (
    <div className="flex h-full flex-col">
      <div className="flex h-13 shrink-0 items-center gap-2 px-4">
        <Link to="/home" aria-label="Parley" className="rounded-md"><Wordmark /></Link>
        <span className="ml-auto truncate text-xs text-muted" title={system.version}>{system.version}</span>
      </div>
      <WorkspaceSwitcher />
      <nav aria-label={t('shell.navigation')} className="min-h-0 flex-1 space-y-0.5 overflow-y-auto px-3 py-1">
        {mayManage && (
          <Link to="/wizard" className={cn(ROW, ROW_IDLE)}>
            <Sparkles className="size-4 text-muted" aria-hidden />
            {t('shell.quickStart')}
          </Link>
        )}
        <Link to="/home/monitoring" aria-current={atDashboard ? 'page' : undefined} className={cn(ROW, atDashboard ? ROW_ACTIVE : ROW_IDLE)}>
          <LayoutDashboard className="size-4 text-muted" aria-hidden />
          {t('shell.dashboard')}
        </Link>
        <EntityGroup
          name="bots"
          label={t('bots.title')}
          path="/home/bots"
          icon={<BotIcon className="size-4 shrink-0 text-muted" aria-hidden />}
          mayCreate={mayManage}
          reason={botReason}
          onCreate={() => void navigate('/home/bots?id=new')}
          items={bots.data?.map((bot) => ({
            id: bot.uuid,
            name: bot.name,
            icon: <AdapterIcon name={bot.adapter} className="size-4" />,
            mark: <HealthDot uuid={bot.uuid} enabled={bot.enable} />,
          }))}
        />
        <EntityGroup
          name="pipelines"
          label={t('pipelines.title')}
          path="/home/pipelines"
          icon={<Workflow className="size-4 shrink-0 text-muted" aria-hidden />}
          mayCreate={mayManage}
          reason={pipelineReason}
          onCreate={() => void navigate('/home/pipelines?id=new')}
          items={pipelines.data?.map((pipeline) => ({
            id: pipeline.uuid,
            name: pipeline.name,
            icon: <span className="text-[13px]">{pipeline.emoji || '⚙️'}</span>,
            mark: pipeline.is_default ? <Badge>{t('pipelines.default')}</Badge> : undefined,
          }))}
        />
      </nav>
      <div className="space-y-0.5 border-t px-3 py-2">
        <button type="button" className={cn(ROW, ROW_IDLE, 'w-full')} onClick={() => show('showModelSettings')}>
          <Boxes className="size-4 text-muted" aria-hidden />
          {t('shell.models')}
        </button>
        {mayKeys && (
          <button type="button" className={cn(ROW, ROW_IDLE, 'w-full')} onClick={() => show('showApiIntegrationSettings')}>
            <KeyRound className="size-4 text-muted" aria-hidden />
            {t('shell.api')}
          </button>
        )}
        <Menu
          align="start"
          side="top"
          trigger={
            <button type="button" aria-label={t('shell.accountMenu')} className={cn(ROW, ROW_IDLE, 'h-9 w-full')}>
              <CircleUser className="size-4 shrink-0 text-muted" aria-hidden />
              <span className="min-w-0 flex-1 truncate text-left">{user?.user ?? t('shell.support')}</span>
              <ChevronsUpDown className="size-4 text-muted" aria-hidden />
            </button>
          }
        >
          {user && (
            <MenuItem onSelect={() => show('showAccountSettings')}>
              <CircleUser aria-hidden />
              {t('settings.account')}
            </MenuItem>
          )}
          <MenuItem onSelect={() => show('showWorkspaceSettings')}>
            <Users aria-hidden />
            {t('settings.workspace')}
          </MenuItem>
          {mayAudit && entry.workspace.source !== 'cloud_projection' && (
            <MenuItem onSelect={() => show('showStorageAnalysis')}>
              <HardDrive aria-hidden />
              {t('settings.storage')}
            </MenuItem>
          )}
          <MenuSeparator />
          <MenuItem onSelect={logout}>
            <LogOut aria-hidden />
            {t('shell.logout')}
          </MenuItem>
        </Menu>
      </div>
    </div>
  );
}
