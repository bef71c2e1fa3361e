import { Suspense, lazy } from 'react';
import { useTranslation } from 'react-i18next';
import { useQuery } from '@tanstack/react-query';
import { Coins } from 'lucide-react';
import { api, type Query } from '@/lib/api';
import type { TokenStats } from '@/lib/types';
import { formatDuration, formatNumber } from '@/lib/utils';
import { Card, EmptyState, ErrorState, Notice, Skeleton } from '@/ui/feedback';
import { StatCard } from './tables';

const TokenChart = lazy(() => import('./charts').then((m) => ({ default: m.TokenChart })));

export function Tokens({ filter, bucket }: { filter: Query; bucket: 'hour' | 'day' }) {
  const { t, i18n } = useTranslation();
  const lang = i18n.language;
  const stats = useQuery({
    queryKey: ['monitor-tokens', filter, bucket],
    queryFn: () => api.get<TokenStats>('/monitoring/token-statistics', { ...filter, bucket }),
  });
  if (stats.isPending) return <Skeleton className="h-56" />;
  if (stats.isError) return <ErrorState error={stats.error} onRetry={() => void stats.refetch()} />;
  const { summary, by_model: models } = stats.data;
  if (summary.total_calls === 0) return <EmptyState icon={<Coins aria-hidden />} title={t('monitor.noCalls')} />;
  return (
    <div className="flex flex-col gap-4">
      <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
        <StatCard label={t('tokens.total')} value={formatNumber(summary.total_tokens, lang)} sub={t('tokens.split', { input: formatNumber(summary.total_input_tokens, lang), output: formatNumber(summary.total_output_tokens, lang) })} />
        <StatCard label={t('tokens.average')} value={formatNumber(summary.avg_tokens_per_call, lang)} sub={t('tokens.calls', { n: formatNumber(summary.total_calls, lang) })} />
        <StatCard label={t('tokens.throughput')} value={t('tokens.perSecond', { n: formatNumber(summary.avg_tokens_per_second, lang) })} sub={t('tokens.duration', { time: formatDuration(summary.avg_duration_ms) })} />
        <StatCard label={t('tokens.failed')} value={formatNumber(summary.error_calls, lang)} />
      </div>
      {summary.zero_token_success_calls > 0 && <Notice tone="warn">{t('tokens.zero', { n: summary.zero_token_success_calls })}</Notice>}
      <Card className="p-4">
        <Suspense fallback={<Skeleton className="h-56" />}>
          <TokenChart stats={stats.data} />
        </Suspense>
      </Card>
      <Card className="overflow-x-auto">
        <table className="w-full text-sm">
          <thead className="border-b text-left text-[13px] text-muted">
            <tr>
              <th scope="col" className="px-4 py-2 font-medium">{t('monitor.col.model')}</th>
              <th scope="col" className="px-4 py-2 text-right font-medium">{t('monitor.col.calls')}</th>
              <th scope="col" className="px-4 py-2 text-right font-medium">{t('monitor.col.input')}</th>
              <th scope="col" className="px-4 py-2 text-right font-medium">{t('monitor.col.output')}</th>
              <th scope="col" className="px-4 py-2 text-right font-medium">{t('monitor.col.duration')}</th>
              <th scope="col" className="px-4 py-2 text-right font-medium">{t('tokens.failed')}</th>
            </tr>
          </thead>
          <tbody className="divide-y">
            {models.map((model) => (
              <tr key={model.model_name}>
                <td className="px-4 py-2 font-mono text-[13px]">{model.model_name}</td>
                <td className="px-4 py-2 text-right tabular-nums">{formatNumber(model.calls, lang)}</td>
                <td className="px-4 py-2 text-right tabular-nums">{formatNumber(model.input_tokens, lang)}</td>
                <td className="px-4 py-2 text-right tabular-nums">{formatNumber(model.output_tokens, lang)}</td>
                <td className="px-4 py-2 text-right tabular-nums">{formatDuration(model.avg_duration_ms)}</td>
                <td className="px-4 py-2 text-right tabular-nums">{formatNumber(model.error_calls, lang)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Card>
    </div>
  );
}
