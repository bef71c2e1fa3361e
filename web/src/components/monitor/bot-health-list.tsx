import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';
import { AdapterIcon } from '@/components/adapter-icon';
import { HEALTH_TONE, healthState } from '@/components/bot/health';
import { useBotHealth, useBots } from '@/lib/queries';
import { useCan } from '@/lib/session';
import type { Bot } from '@/lib/types';
import { formatAgo, formatNumber } from '@/lib/utils';
import { buttonClass } from '@/ui/button';
import { Badge, Dot, EmptyState, ErrorState, Section, Skeleton } from '@/ui/feedback';

/** Health of every bot and what became of its messages. */
export function BotHealthList({ only }: { only: string | null }) {
  const { t } = useTranslation();
  const bots = useBots();
  const mayManage = useCan('resource.manage');
  const list = bots.data?.filter((bot) => only === null || bot.uuid === only);
  return (
    <Section title={t('monitor.bots')} description={t('monitor.botsHint')}>
      {bots.isPending && <Skeleton className="h-24" />}
      {bots.isError && <ErrorState error={bots.error} onRetry={() => void bots.refetch()} className="py-4" />}
      {list?.length === 0 && (
        <EmptyState title={t('bots.none')} action={mayManage && <Link to="/wizard" className={buttonClass('primary', 'sm')}>{t('shell.quickStart')}</Link>}>
          {t('bots.noneHint')}
        </EmptyState>
      )}
      {list && list.length > 0 && (
        <ul className="-mx-5 -my-5 max-h-96 divide-y overflow-y-auto">
          {list.map((bot) => (
            <HealthRow key={bot.uuid} bot={bot} />
          ))}
        </ul>
      )}
    </Section>
  );
}

function HealthRow({ bot }: { bot: Bot }) {
  const { t, i18n } = useTranslation();
  const lang = i18n.language;
  const health = useBotHealth(bot.uuid);
  const h = health.data;
  const state = healthState(h, bot.enable);
  const tone = HEALTH_TONE[state] ?? 'ok';
  return (
    <li>
      <Link to={`/home/bots?id=${bot.uuid}&tab=deliveries`} className="flex flex-wrap items-center gap-x-4 gap-y-1.5 px-5 py-3 transition-colors hover:bg-sunken">
        <AdapterIcon name={bot.adapter} className="size-6" />
        <span className="min-w-0 flex-1 basis-36">
          <span className="block truncate text-sm font-medium">{bot.name}</span>
          <span className="block truncate text-xs text-muted">
            {h?.last_message_at ? t('delivery.lastMessage', { time: formatAgo(h.last_message_at, lang) }) : t('monitor.noMessageYet')}
          </span>
        </span>
        <Badge tone={tone}>
          <Dot tone={tone} className="size-1.5" />
          {t(`health.${state}`)}
          {h?.since && state === 'running' && <span className="hidden font-normal sm:inline">{formatAgo(h.since, lang)}</span>}
        </Badge>
        {h && (
          <span className="flex w-full flex-wrap gap-x-4 gap-y-1 text-[13px] text-muted tabular-nums sm:pl-10">
            {(['received', 'delivered', 'pending', 'failed'] as const).map((key) => (
              <span key={key} className={key === 'failed' && h.failed > 0 ? 'text-bad' : undefined}>
                <span className={key === 'failed' && h.failed > 0 ? 'font-medium' : 'font-medium text-text'}>{formatNumber(h[key], lang)}</span> {t(`delivery.count.${key}`)}
              </span>
            ))}
          </span>
        )}
        {h?.last_error && <span className="w-full text-[13px] break-words text-bad sm:pl-10">{h.last_error}</span>}
      </Link>
    </li>
  );
}
