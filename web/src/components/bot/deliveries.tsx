import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Inbox, RefreshCw } from 'lucide-react';
import { ApiError, api } from '@/lib/api';
import { useBotHealth } from '@/lib/queries';
import type { Delivery } from '@/lib/types';
import { formatAgo, formatNumber, formatTime } from '@/lib/utils';
import { Button } from '@/ui/button';
import { Badge, Card, EmptyState, ErrorState, Notice, Skeleton, type Tone } from '@/ui/feedback';
import { Select } from '@/ui/form';

export const DELIVERY_TONE: Record<string, Tone> = {
  received: 'accent', running: 'accent', sending: 'accent', sent: 'ok', failed: 'bad', discarded: 'neutral',
};
const STATES = Object.keys(DELIVERY_TONE);
const STEP = 50;

/** What became of each message of a bot: from its arrival to its answer. */
export function Deliveries({ uuid }: { uuid: string }) {
  const { t, i18n } = useTranslation();
  const lang = i18n.language;
  const [state, setState] = useState('all');
  const [limit, setLimit] = useState(STEP);
  const health = useBotHealth(uuid, 5000);
  const list = useQuery({
    queryKey: ['deliveries', uuid, state, limit],
    queryFn: async () => {
      try {
        return await api.get<{ deliveries: Delivery[]; total: number }>(`/platform/bots/${uuid}/deliveries`, {
          limit,
          state: state === 'all' ? undefined : state,
        });
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null;
        throw error;
      }
    },
    refetchInterval: (query) => (query.state.data === null ? false : 5000),
    placeholderData: keepPreviousData,
  });
  const h = health.data;
  return (
    <div className="flex flex-col gap-4">
      {h && (
        <ul className="grid grid-cols-2 gap-3 sm:grid-cols-4">
          {(['received', 'delivered', 'pending', 'failed'] as const).map((key) => (
            <li key={key} className="rounded-xl border bg-surface px-4 py-3">
              <p className="text-[13px] text-muted first-letter:uppercase">{t(`delivery.count.${key}`)}</p>
              <p className={`text-xl font-semibold tabular-nums ${key === 'failed' && h[key] > 0 ? 'text-bad' : ''}`}>{formatNumber(h[key], lang)}</p>
            </li>
          ))}
        </ul>
      )}
      {h?.last_error && <Notice tone="bad"><span className="font-medium">{t('delivery.lastError')}</span> {h.last_error}</Notice>}
      <div className="flex flex-wrap items-center gap-3">
        <Select
          size="sm"
          className="w-44"
          aria-label={t('delivery.filter')}
          value={state}
          onChange={(next) => {
            setState(next);
            setLimit(STEP);
          }}
          options={[{ value: 'all', label: t('delivery.all') }, ...STATES.map((s) => ({ value: s, label: t(`delivery.state.${s}`) }))]}
        />
        {h?.last_message_at && <span className="text-[13px] text-muted">{t('delivery.lastMessage', { time: formatAgo(h.last_message_at, lang) })}</span>}
        <Button size="sm" className="ml-auto" busy={list.isFetching && !list.isPending} onClick={() => void list.refetch()}>
          <RefreshCw className="size-4" aria-hidden />
          {t('common.refresh')}
        </Button>
      </div>
      {list.isPending && <Skeleton className="h-40" />}
      {list.isError && <ErrorState error={list.error} onRetry={() => void list.refetch()} />}
      {list.data === null && <EmptyState icon={<Inbox aria-hidden />} title={t('delivery.unsupported')} />}
      {list.data?.deliveries.length === 0 && <EmptyState icon={<Inbox aria-hidden />} title={t('delivery.none')}>{t('delivery.noneHint')}</EmptyState>}
      {list.data && list.data.deliveries.length > 0 && (
        <Card className="overflow-x-auto">
          <table className="w-full text-sm">
            <thead className="border-b text-left text-[13px] text-muted">
              <tr>
                <th scope="col" className="px-4 py-2 font-medium">{t('delivery.col.state')}</th>
                <th scope="col" className="px-4 py-2 font-medium">{t('delivery.col.message')}</th>
                <th scope="col" className="hidden px-4 py-2 font-medium md:table-cell">{t('delivery.col.session')}</th>
                <th scope="col" className="hidden px-4 py-2 text-right font-medium sm:table-cell">{t('delivery.col.attempts')}</th>
                <th scope="col" className="hidden px-4 py-2 text-right font-medium sm:table-cell">{t('delivery.col.received')}</th>
              </tr>
            </thead>
            <tbody className="divide-y">
              {list.data.deliveries.map((item) => (
                <tr key={item.id}>
                  <td className="px-4 py-2.5 align-top"><Badge tone={DELIVERY_TONE[item.state] ?? 'neutral'}>{t(`delivery.state.${item.state}`, { defaultValue: item.state })}</Badge></td>
                  <td className="w-full max-w-0 px-4 py-2.5 align-top">
                    <p className="truncate">{item.preview || '–'}</p>
                    {item.last_error && <p className="mt-0.5 text-[13px] break-words text-bad">{item.last_error}</p>}
                    <p className="text-xs text-muted sm:hidden">{formatTime(item.received_at, lang)}</p>
                  </td>
                  <td className="hidden max-w-44 px-4 py-2.5 align-top md:table-cell"><code className="block truncate font-mono text-xs text-muted" title={item.session_id}>{item.session_id}</code></td>
                  <td className="hidden px-4 py-2.5 text-right align-top tabular-nums sm:table-cell">{item.attempts}</td>
                  <td className="hidden px-4 py-2.5 text-right align-top whitespace-nowrap text-muted sm:table-cell" title={formatTime(item.updated_at, lang)}>{formatTime(item.received_at, lang)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {list.data.total > list.data.deliveries.length && (
            <div className="border-t p-2 text-center">
              <Button size="sm" variant="ghost" busy={list.isFetching} onClick={() => setLimit(limit + STEP)}>{t('delivery.more', { shown: list.data.deliveries.length, total: list.data.total })}</Button>
            </div>
          )}
        </Card>
      )}
    </div>
  );
}
