import { useTranslation } from 'react-i18next';
import { useNavigate, useSearchParams } from 'react-router';
import { Bot as BotIcon, Plus } from 'lucide-react';
import { AdapterIcon } from '@/components/adapter-icon';
import { BotCreate } from '@/components/bot/bot-create';
import { BotDetail } from '@/components/bot/bot-detail';
import { HealthBadge } from '@/components/bot/health';
import { usePage } from '@/components/crumbs';
import { adapterLabel } from '@/lib/platform';
import { useAdapters, useBots } from '@/lib/queries';
import { useQuotaReason } from '@/lib/quota';
import { useCan } from '@/lib/session';
import { EmptyState, ErrorState, Spinner } from '@/ui/feedback';
import { GatedButton } from '@/ui/overlay';

export function Component() {
  const [params] = useSearchParams();
  const id = params.get('id');
  if (id === 'new') return <BotCreate />;
  return id ? <BotDetail key={id} uuid={id} /> : <BotList />;
}

function BotList() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const bots = useBots();
  const adapters = useAdapters();
  const mayManage = useCan('resource.manage');
  const reason = useQuotaReason('bots');
  usePage(t('bots.title'));
  const create = mayManage && (
    <GatedButton reason={reason} label={t('bots.create')} variant="primary" onClick={() => void navigate('/home/bots?id=new')}>
      <Plus className="size-4" aria-hidden />
      {t('bots.create')}
    </GatedButton>
  );
  if (bots.isPending) return <Spinner />;
  if (bots.isError) return <ErrorState error={bots.error} onRetry={() => void bots.refetch()} />;
  if (bots.data.length === 0) {
    return (
      <EmptyState icon={<BotIcon aria-hidden />} title={t('bots.none')} action={create}>
        {t('bots.noneHint')}
      </EmptyState>
    );
  }
  return (
    <>
      <div className="mb-5 flex flex-wrap items-start justify-between gap-3">
        <div>
          <h1 className="text-xl font-semibold tracking-tight">{t('bots.title')}</h1>
          <p className="text-sm text-muted">{t('bots.select')}</p>
        </div>
        {create}
      </div>
      <ul className="grid gap-3 sm:grid-cols-2 xl:grid-cols-3">
        {bots.data.map((bot) => (
          <li key={bot.uuid}>
            <button
              type="button"
              onClick={() => void navigate(`/home/bots?id=${bot.uuid}`)}
              className="flex h-full w-full items-start gap-3 rounded-xl border bg-surface p-4 text-left transition-colors hover:border-line-strong hover:bg-sunken"
            >
              <AdapterIcon name={bot.adapter} className="mt-0.5 size-8" />
              <span className="min-w-0 flex-1">
                <span className="flex items-center justify-between gap-2">
                  <span className="truncate font-medium">{bot.name}</span>
                  <HealthBadge uuid={bot.uuid} enabled={bot.enable} />
                </span>
                <span className="block truncate text-[13px] text-muted">{adapterLabel(adapters.data, bot.adapter)}</span>
                {bot.description && <span className="mt-1 line-clamp-2 text-[13px] text-muted">{bot.description}</span>}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
