import { Suspense, lazy, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useSearchParams } from 'react-router';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Download, RefreshCw } from 'lucide-react';
import { toast } from 'sonner';
import { usePage } from '@/components/crumbs';
import { BotHealthList } from '@/components/monitor/bot-health-list';
import { FeedbackTab } from '@/components/monitor/feedback-tab';
import { Calls, Errors, StatCard, Turns } from '@/components/monitor/tables';
import { Tokens } from '@/components/monitor/tokens';
import { api, download, type Query } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { useBots, usePipelines } from '@/lib/queries';
import { useCan } from '@/lib/session';
import { bucketize } from '@/lib/turns';
import type { MonData } from '@/lib/types';
import { formatNumber } from '@/lib/utils';
import { Button, IconButton } from '@/ui/button';
import { ErrorState, Section, Skeleton } from '@/ui/feedback';
import { Select } from '@/ui/form';
import { Menu, MenuItem } from '@/ui/overlay';
import { Tab, TabList, TabPanel, Tabs } from '@/ui/tabs';

const TrafficChart = lazy(() => import('@/components/monitor/charts').then((m) => ({ default: m.TrafficChart })));

const HOUR = 3_600_000;
const RANGES: Record<string, number> = {
  lastHour: HOUR, last6Hours: 6 * HOUR, last24Hours: 24 * HOUR, last7Days: 168 * HOUR, last30Days: 720 * HOUR,
};
const EXPORTS = ['messages', 'llm-calls', 'embedding-calls', 'errors', 'sessions', 'feedback'];
const REFRESH_MS = 30_000;
const ROWS = 500;

export function Component() {
  const { t, i18n } = useTranslation();
  const lang = i18n.language;
  usePage(t('shell.dashboard'));
  const [params, setParams] = useSearchParams();
  const [range, setRange] = useState('last24Hours');
  const [tab, setTab] = useState('messages');
  const mayExport = useCan('data.export');
  const bots = useBots();
  const pipelines = usePipelines();
  const botId = params.get('botId');
  const pipelineId = params.get('pipelineId');
  const span = RANGES[range] ?? 24 * HOUR;

  const setFilter = (key: string, value: string) =>
    setParams((old) => {
      const next = new URLSearchParams(old);
      if (value === 'all') next.delete(key);
      else next.set(key, value);
      return next;
    }, { replace: true });

  // The window moves with each read, the key does not: otherwise every read would be a new query.
  const data = useQuery({
    queryKey: ['monitor-data', range, botId, pipelineId],
    queryFn: async () => {
      const now = Date.now();
      const window = { from: now - span, to: now };
      const filter: Query = { botId, pipelineId, startTime: new Date(window.from).toISOString(), endTime: new Date(now).toISOString() };
      return { window, filter, data: await api.get<MonData>('/monitoring/data', { ...filter, limit: ROWS }) };
    },
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });

  const buckets = useMemo(
    () => (data.data ? bucketize(data.data.data.messages ?? [], data.data.data.llmCalls ?? [], data.data.window.from, data.data.window.to) : []),
    [data.data],
  );
  const exportAs = async (type: string) => {
    try {
      await download('/monitoring/export', { type, ...(data.data?.filter ?? {}) }, `monitoring-${type}.csv`);
    } catch (error) {
      toast.error(errorText(error));
    }
  };
  const overview = data.data?.data.overview;
  const filter = data.data?.filter;
  const counts = data.data?.data.totalCount;

  return (
    <div className="flex flex-col gap-5">
      <div className="flex flex-wrap items-center gap-2">
        <h1 className="mr-auto w-full text-xl font-semibold tracking-tight sm:w-auto">{t('shell.dashboard')}</h1>
        <Select
          size="sm"
          className="w-36 grow sm:grow-0"
          aria-label={t('monitor.filterBot')}
          value={botId ?? 'all'}
          onChange={(value) => setFilter('botId', value)}
          options={[{ value: 'all', label: t('monitor.allBots') }, ...(bots.data ?? []).map((b) => ({ value: b.uuid, label: b.name }))]}
        />
        <Select
          size="sm"
          className="w-36 grow sm:grow-0"
          aria-label={t('monitor.filterPipeline')}
          value={pipelineId ?? 'all'}
          onChange={(value) => setFilter('pipelineId', value)}
          options={[{ value: 'all', label: t('monitor.allPipelines') }, ...(pipelines.data ?? []).map((p) => ({ value: p.uuid, label: p.name }))]}
        />
        <Select
          size="sm"
          className="w-36 grow sm:grow-0"
          aria-label={t('monitor.range')}
          value={range}
          onChange={setRange}
          options={Object.keys(RANGES).map((key) => ({ value: key, label: t(`monitor.ranges.${key}`) }))}
        />
        <IconButton label={t('common.refresh')} variant="secondary" className="size-8" busy={data.isFetching && !data.isPending} onClick={() => void data.refetch()}>
          {!(data.isFetching && !data.isPending) && <RefreshCw className="size-4" aria-hidden />}
        </IconButton>
        {mayExport && (
          <Menu
            trigger={
              <Button size="sm">
                <Download className="size-4" aria-hidden />
                {t('monitor.export')}
              </Button>
            }
          >
            {EXPORTS.map((type) => (
              <MenuItem key={type} onSelect={() => void exportAs(type)}>{t(`monitor.exports.${type}`)}</MenuItem>
            ))}
          </Menu>
        )}
      </div>

      {data.isError ? (
        <ErrorState error={data.error} onRetry={() => void data.refetch()} />
      ) : (
        <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
          {overview ? (
            <>
              <StatCard label={t('monitor.totalMessages')} value={formatNumber(overview.total_messages, lang)} />
              <StatCard label={t('monitor.modelCalls')} value={formatNumber(overview.model_calls, lang)} sub={t('monitor.callSplit', { llm: overview.llm_calls, embedding: overview.embedding_calls })} />
              <StatCard label={t('monitor.successRate')} value={overview.total_messages > 0 ? `${formatNumber(overview.success_rate, lang)} %` : '–'} />
              <StatCard label={t('monitor.activeSessions')} value={formatNumber(overview.active_sessions, lang)} />
            </>
          ) : (
            [0, 1, 2, 3].map((n) => <Skeleton key={n} className="h-24" />)
          )}
        </div>
      )}

      <div className="grid gap-5 xl:grid-cols-[3fr_2fr]">
        <Section title={t('monitor.traffic')} description={t('monitor.trafficHint')}>
          <Suspense fallback={<Skeleton className="h-56" />}>
            <TrafficChart buckets={buckets} long={span > 24 * HOUR} />
          </Suspense>
          {(counts?.messages ?? 0) > ROWS && <p className="mt-2 text-xs text-muted">{t('monitor.newestOnly', { n: formatNumber(ROWS, lang) })}</p>}
        </Section>
        <BotHealthList only={botId} />
      </div>

      <Tabs value={tab} onValueChange={setTab}>
        <TabList className="mb-4">
          <Tab value="messages">{t('monitor.messages')}</Tab>
          <Tab value="calls">{t('monitor.modelCalls')}</Tab>
          <Tab value="tokens">{t('monitor.tokens')}</Tab>
          <Tab value="feedback">{t('monitor.feedback')}</Tab>
          <Tab value="errors">
            {t('monitor.errors')}
            {(counts?.errors ?? 0) > 0 && <span className="rounded-full bg-bad-soft px-1.5 text-xs text-bad">{counts?.errors}</span>}
          </Tab>
        </TabList>
        <TabPanel value="messages">{data.data ? <Turns data={data.data.data} /> : <Skeleton className="h-40" />}</TabPanel>
        <TabPanel value="calls">{data.data ? <Calls calls={data.data.data.llmCalls ?? []} /> : <Skeleton className="h-40" />}</TabPanel>
        <TabPanel value="tokens">{filter && <Tokens filter={filter} bucket={span > 48 * HOUR ? 'day' : 'hour'} />}</TabPanel>
        <TabPanel value="feedback">{filter && <FeedbackTab filter={filter} />}</TabPanel>
        <TabPanel value="errors">{data.data ? <Errors errors={data.data.data.errors ?? []} /> : <Skeleton className="h-40" />}</TabPanel>
      </Tabs>
    </div>
  );
}
